// How far a model's distribution of the next token is from another's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/next_token_logits.h"

namespace tern::engine {

// Of one token of a text.
struct TokenComparison {
  double logprob = 0;    // of the token, under the model
  double reference = 0;  // ... and under the other
  // KL(P || Q) = sum of P (log P - log Q) over the vocabulary, P the reference's distribution and Q the model's.
  double kl = 0;
  bool same_top = false;  // both hold the same token likeliest; of equals the first
  double distance = 0;    // root mean square of the differences of logits, less their mean
  double spread = 0;      // standard deviation of the reference's logits
};

// From logits [vocab] of the reference and of the model; `token` is the one that the text goes on with. Sums are in
// fp64. Not finite where a logit is not.
[[nodiscard]] TokenComparison compare_logits(std::span<const float> reference, std::span<const float> model,
                                             std::size_t token);

// The log-probability of each token that `window` scores. Throws Failure (failed) where one is not finite, and names
// its token.
[[nodiscard]] std::vector<double> token_logprobs(NextTokenLogits& model, std::span<const std::int32_t> ids,
                                                 const ScoreWindow& window);

// Compares two models of one vocabulary over texts; never holds more than a block of logits of each.
class Comparer {
 public:
  // Both outlive it. `threads` of the host sum up (0: one a core).
  Comparer(NextTokenLogits& reference, NextTokenLogits& model, int threads)
      : reference_(reference), model_(model), pool_(threads) {}

  // Each token that `window` scores. Throws Failure (failed) where a logit is not finite, and names its token.
  std::vector<TokenComparison> compare(std::span<const std::int32_t> ids, const ScoreWindow& window);

 private:
  NextTokenLogits& reference_;
  NextTokenLogits& model_;
  ThreadPool pool_;
};

}  // namespace tern::engine
