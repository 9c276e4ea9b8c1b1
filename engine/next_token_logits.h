// The scores of every token of the vocabulary, for the tokens of a text, a block of rows at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/scored_rows.h"
#include "graph/program.h"
#include "session/runtime.h"

namespace tern::engine {

class NextTokenLogits {
 public:
  static constexpr std::size_t kBlock = 32;  // rows of logits that are held

  NextTokenLogits(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime);

  // Computes the hidden states of a window of the text `ids`; gives their number.
  std::size_t read(std::span<const std::int32_t> ids, const ScoreWindow& window);
  // The logits from which the window's i-th scored tokens are drawn, `first` <= i < first + count: [count, vocab_size].
  // At most kBlock; until the next call.
  [[nodiscard]] std::span<const float> logits(std::size_t first, std::size_t count);
  [[nodiscard]] std::size_t vocab_size() const { return vocab_size_; }

 private:
  std::unique_ptr<graph::Program> hidden_program_;
  std::unique_ptr<graph::Program> head_program_;
  std::vector<std::byte> hidden_;  // [rows, hidden]
  std::size_t row_bytes_ = 0;
  std::size_t vocab_size_ = 0;
};

}  // namespace tern::engine
