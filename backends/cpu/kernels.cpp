// Every kernel of this backend: one line an op. Where an op has several, the preferred one comes first in its own list.
#include "backends/cpu/kernels.h"

#include <vector>

#ifdef TERN_CPU_ONEDNN
#include "backends/cpu/onednn.h"
#endif

namespace tern::cpu {

std::span<const KernelEntry* const> kernel_entries() {
  static const std::vector<const KernelEntry*> all = [] {
    std::vector<const KernelEntry*> entries;
    for (const auto& list : {
             attention_backward_kernels(),
             attention_kernels(),
             attention_paged_kernels(),
             linear_cross_entropy_kernels(),
             matmul_kernels(),
#ifdef TERN_CPU_ONEDNN
             onednn_kernels(),
#endif
             act_mul_kernels(),
             adamw_kernels(),
             all_finite_kernels(),
             axpby_kernels(),
             cast_copy_kernels(),
             dequantize_kernels(),
             dropout_kernels(),
             embedding_kernels(),
             gather_rows_kernels(),
             kv_write_kernels(),
             mul_kernels(),
             row_sum_kernels(),
             scale_kernels(),
             scatter_add_rows_kernels(),
             sink_scale_kernels(),
             softcap_kernels(),
             sum_squares_kernels(),
             rms_norm_kernels(),
             rope_kernels(),
             sample_kernels(),
             KernelList{},
         }) {
      for (const KernelEntry& entry : list) entries.push_back(&entry);
    }
    return entries;
  }();
  return all;
}

}  // namespace tern::cpu
