// The scores of every token of the vocabulary as answers are drawn from them: in steps over a paged cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/model_runner.h"
#include "engine/next_token_logits.h"

namespace tern::engine {

// What LLMEngine computes for a prompt, in steps of `options.step_tokens` tokens; in steps of one, what it computes for
// an answer. It has a cache of its own.
class CachedLogits : public NextTokenLogits {
 public:
  CachedLogits(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime);

  std::size_t read(std::span<const std::int32_t> ids, const ScoreWindow& window) override;
  [[nodiscard]] std::span<const float> logits(std::size_t first, std::size_t count) override;
  [[nodiscard]] std::size_t vocab_size() const override { return vocab_size_; }

 private:
  // Computes tokens up to `end` of the window; where `keep`, their logits are appended.
  void compute(std::int64_t end, bool keep);

  std::int64_t step_tokens_;
  std::size_t vocab_size_;
  CacheEngine cache_;
  ModelRunner runner_;
  Sequence sequence_;        // the window
  std::int64_t before_ = 0;  // tokens of it before the first whose logits are asked for
  std::vector<float> logits_;
};

}  // namespace tern::engine
