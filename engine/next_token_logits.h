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

  virtual ~NextTokenLogits() = default;

  // Begins with a window of the text `ids`; gives the number of tokens that it scores.
  virtual std::size_t read(std::span<const std::int32_t> ids, const ScoreWindow& window) = 0;
  // The logits from which the window's i-th scored tokens are drawn, `first` <= i < first + count: [count, vocab_size].
  // At most kBlock, each once and in order; until the next call.
  [[nodiscard]] virtual std::span<const float> logits(std::size_t first, std::size_t count) = 0;
  [[nodiscard]] virtual std::size_t vocab_size() const = 0;
};

// The window at once, without a cache: keys and values are what the model computes, rounded nowhere.
class PackedLogits : public NextTokenLogits {
 public:
  PackedLogits(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime);

  std::size_t read(std::span<const std::int32_t> ids, const ScoreWindow& window) override;
  [[nodiscard]] std::span<const float> logits(std::size_t first, std::size_t count) override;
  [[nodiscard]] std::size_t vocab_size() const override { return vocab_size_; }

 private:
  std::unique_ptr<graph::Program> hidden_program_;
  std::unique_ptr<graph::Program> head_program_;
  std::vector<std::byte> hidden_;  // [rows, hidden]
  std::size_t row_bytes_ = 0;
  std::size_t vocab_size_ = 0;
};

}  // namespace tern::engine
