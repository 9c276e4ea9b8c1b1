// The lists of kernels that each op's file gives.
#pragma once

#include "backends/cpu/kernel.h"

namespace tern::cpu {

using KernelList = std::span<const KernelEntry>;
KernelList act_mul_kernels();
KernelList adamw_kernels();
KernelList all_finite_kernels();
KernelList axpby_kernels();
KernelList cast_copy_kernels();
KernelList dequantize_kernels();
KernelList dropout_kernels();
KernelList embedding_kernels();
KernelList gather_rows_kernels();
KernelList kv_write_kernels();
KernelList row_sum_kernels();
KernelList scale_kernels();
KernelList scatter_add_rows_kernels();
KernelList sink_scale_kernels();
KernelList softcap_kernels();
KernelList sum_squares_kernels();
KernelList attention_backward_kernels();
KernelList attention_kernels();
KernelList attention_paged_kernels();
KernelList rms_norm_kernels();
KernelList rope_kernels();
KernelList sample_kernels();
KernelList linear_cross_entropy_kernels();
KernelList matmul_kernels();
KernelList mul_kernels();

}  // namespace tern::cpu
