// How answers compare with the labels of their rows: tern infer --metric.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags/arguments.h"
#include "data/plugin_host.h"
#include "engine/answer_metrics.h"

namespace tern::cli {

class AnswerJudge {
 public:
  // "acc" or "rouge"; none: nothing is judged.
  explicit AnswerJudge(std::optional<std::string> metric) : metric_(std::move(metric)) {}
  // By --metric, which may be one that --external_plugins register. Throws Failure.
  explicit AnswerJudge(const Arguments& arguments);

  // Rows without a label don't count. A row without an answer is a wrong one to acc, and doesn't count to rouge.
  void take(const std::optional<std::string>& answer, const std::string& label);
  // The means over the rows with a label, as a line; "" without a metric. Throws Failure of a plugin.
  [[nodiscard]] std::string line() const;

 private:
  std::optional<std::string> metric_;
  std::int64_t labelled_ = 0;
  std::int64_t right_ = 0;
  engine::AnswerScores sums_;
  std::shared_ptr<data::PluginHost> plugins_;  // whose metric it is; else null
  std::vector<std::string> answers_, labels_;  // that it is given
};

}  // namespace tern::cli
