#include "engine/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "engine/non_finite_logit.h"

namespace tern::engine {

TokenComparison compare_logits(std::span<const float> reference, std::span<const float> model, std::size_t token) {
  const auto top_p = std::max_element(reference.begin(), reference.end());
  const auto top_q = std::max_element(model.begin(), model.end());
  const double max_p = *top_p;
  const double max_q = *top_q;
  double sum_p = 0;
  double sum_q = 0;
  double gaps = 0;      // of exp(p) (p - q)
  double sums[4] = {};  // of p - q, its square, p, its square
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double p = double{reference[i]} - max_p;
    const double q = double{model[i]} - max_q;
    const double weight = std::exp(p);
    sum_p += weight;
    sum_q += std::exp(q);
    gaps += weight * (p - q);
    const double gap = p - q;
    sums[0] += gap;
    sums[1] += gap * gap;
    sums[2] += p;
    sums[3] += p * p;
  }
  const auto deviation = [n = static_cast<double>(reference.size())](double sum, double squares) {
    return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
  };
  TokenComparison out;
  out.distance = deviation(sums[0], sums[1]);
  out.spread = deviation(sums[2], sums[3]);
  out.logprob = double{model[token]} - max_q - std::log(sum_q);
  out.reference = double{reference[token]} - max_p - std::log(sum_p);
  out.kl = gaps / sum_p - std::log(sum_p) + std::log(sum_q);
  if (out.kl < 0) out.kl = 0;  // it never is but by rounding
  out.same_top = top_p - reference.begin() == top_q - model.begin();
  return out;
}

std::vector<double> token_logprobs(NextTokenLogits& model, std::span<const std::int32_t> ids,
                                   const ScoreWindow& window) {
  std::vector<double> out(model.read(ids, window));
  const std::size_t vocab = model.vocab_size();
  for (std::size_t begin = 0; begin < out.size(); begin += NextTokenLogits::kBlock) {
    const std::size_t count = std::min(NextTokenLogits::kBlock, out.size() - begin);
    const auto logits = model.logits(begin, count);
    for (std::size_t row = 0; row < count; ++row) {
      const auto of = logits.subspan(row * vocab, vocab);
      const std::size_t token = window.first + begin + row;
      // Beside itself: the same sum as that of a comparison.
      out[begin + row] = compare_logits(of, of, static_cast<std::size_t>(ids[token])).logprob;
      if (!std::isfinite(out[begin + row])) throw Failure(non_finite_logit(cat("token ", token), out[begin + row]));
    }
  }
  return out;
}

std::vector<TokenComparison> Comparer::compare(std::span<const std::int32_t> ids, const ScoreWindow& window) {
  (void)reference_.read(ids, window);
  std::vector<TokenComparison> out(model_.read(ids, window));
  const std::size_t vocab = model_.vocab_size();
  for (std::size_t begin = 0; begin < out.size(); begin += NextTokenLogits::kBlock) {
    const std::size_t count = std::min(NextTokenLogits::kBlock, out.size() - begin);
    const auto reference = reference_.logits(begin, count);
    const auto model = model_.logits(begin, count);
    pool_.parallel_tasks(static_cast<std::int64_t>(count), [&](std::int64_t task, int) {
      const auto row = static_cast<std::size_t>(task);
      out[begin + row] = compare_logits(reference.subspan(row * vocab, vocab), model.subspan(row * vocab, vocab),
                                        static_cast<std::size_t>(ids[window.first + begin + row]));
    });
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const double value : {out[i].logprob, out[i].reference, out[i].kl}) {
      if (!std::isfinite(value)) throw Failure(non_finite_logit(cat("token ", window.first + i), value));
    }
  }
  return out;
}

}  // namespace tern::engine
