// One row's choice of keys, for both forms of index_topk_mask.
#pragma once

#include <functional>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

struct IndexInputs {
  std::int64_t topk;
  const Tensor& q;                                          // [rows, heads, dim]
  const Tensor& weights;                                    // [rows, heads]
  const Tensor& k;                                          // [..., dim]; leading dimensions are tokens
  const Tensor& cu_seqlens_q;                               // [sequences + 1]
  std::function<std::int64_t(std::int64_t sequence)> keys;  // how many
  std::function<std::int64_t(std::int64_t sequence, std::int64_t key)> token;  // of k
};
// Writes the mask [rows, at least as many as keys].
void choose_keys(const IndexInputs& in, Tensor& mask);

}  // namespace tern::ops::ref
