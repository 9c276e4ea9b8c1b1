#include "ops/ref/index_topk.h"

namespace tern::ops::ref {

void index_topk_mask_paged(Call& call) {
  const Tensor& k = input(call, TERN_INDEX_TOPK_MASK_PAGED_K_CACHE);
  const Tensor& table = input(call, TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE);
  const Tensor& lens = input(call, TERN_INDEX_TOPK_MASK_PAGED_KV_LENS);
  const std::int64_t block_size = k.size(1);
  choose_keys({attrs_of<tern_index_topk_mask_paged_attrs>(call).topk, input(call, TERN_INDEX_TOPK_MASK_PAGED_Q),
               input(call, TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS), k, input(call, TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q),
               [&](std::int64_t s) { return lens.integer[static_cast<std::size_t>(s)]; },
               [&](std::int64_t s, std::int64_t key) {
                 const auto at = static_cast<std::size_t>(s * table.size(1) + key / block_size);
                 return table.integer.at(at) * block_size + key % block_size;
               }},
              call.args[TERN_INDEX_TOPK_MASK_PAGED_MASK]);
}

}  // namespace tern::ops::ref
