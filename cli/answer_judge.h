// How answers compare with the labels of their rows: tern infer --metric.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/answer_metrics.h"

namespace tern::cli {

class AnswerJudge {
 public:
  // "acc" or "rouge"; none: nothing is judged.
  explicit AnswerJudge(std::optional<std::string> metric) : metric_(std::move(metric)) {}

  // Rows without a label don't count. A row without an answer is a wrong one to acc, and doesn't count to rouge.
  void take(const std::optional<std::string>& answer, const std::string& label);
  // The means over the rows with a label, as a line; "" without a metric.
  [[nodiscard]] std::string line() const;

 private:
  std::optional<std::string> metric_;
  std::int64_t labelled_ = 0;
  std::int64_t right_ = 0;
  engine::AnswerScores sums_;
};

}  // namespace tern::cli
