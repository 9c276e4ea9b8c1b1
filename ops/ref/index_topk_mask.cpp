#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/ref/index_topk.h"

namespace tern::ops::ref {
namespace {

// Of row `at` and a token's key.
double score_of(const IndexInputs& in, std::int64_t at, std::int64_t token) {
  const std::int64_t heads = in.q.size(1);
  const std::int64_t dim = in.q.size(2);
  const double* k = in.k.real.data() + token * dim;
  double score = 0.0;
  for (std::int64_t h = 0; h < heads; ++h) {
    const double* q = in.q.real.data() + (at * heads + h) * dim;
    const double dot = std::inner_product(q, q + dim, k, 0.0);
    score += in.weights.real[static_cast<std::size_t>(at * heads + h)] * (dot > 0.0 ? dot : 0.0);
  }
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

}  // namespace

void choose_keys(const IndexInputs& in, Tensor& mask) {
  mask.integer.assign(static_cast<std::size_t>(num_elements(mask.desc)), 0);
  for (std::int64_t s = 0; s + 1 < in.cu_seqlens_q.size(0); ++s) {
    const std::int64_t begin = in.cu_seqlens_q.integer[static_cast<std::size_t>(s)];
    const std::int64_t len_q = in.cu_seqlens_q.integer[static_cast<std::size_t>(s + 1)] - begin;
    const std::int64_t len_k = in.keys(s);
    for (std::int64_t i = 0; i < len_q; ++i) {
      const auto visible = static_cast<std::size_t>(std::clamp<std::int64_t>(i + len_k - len_q + 1, 0, len_k));
      std::vector<double> score(visible);
      for (std::size_t j = 0; j < visible; ++j) {
        score[j] = score_of(in, begin + i, in.token(s, static_cast<std::int64_t>(j)));
      }
      std::vector<std::size_t> order(visible);
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
      order.resize(std::min(visible, static_cast<std::size_t>(in.topk)));
      for (const std::size_t j : order) mask.integer[static_cast<std::size_t>((begin + i) * mask.size(1)) + j] = 1;
    }
  }
}

void index_topk_mask(Call& call) {
  const Tensor& cu_k = input(call, TERN_INDEX_TOPK_MASK_CU_SEQLENS_K);
  const auto begin = [&cu_k](std::int64_t s) { return cu_k.integer[static_cast<std::size_t>(s)]; };
  choose_keys({attrs_of<tern_index_topk_mask_attrs>(call).topk, input(call, TERN_INDEX_TOPK_MASK_Q),
               input(call, TERN_INDEX_TOPK_MASK_WEIGHTS), input(call, TERN_INDEX_TOPK_MASK_K),
               input(call, TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q), [&](std::int64_t s) { return begin(s + 1) - begin(s); },
               [&](std::int64_t s, std::int64_t key) { return begin(s) + key; }},
              call.args[TERN_INDEX_TOPK_MASK_MASK]);
}

}  // namespace tern::ops::ref
