// The narrow half of a low-rank adapter, with dropout: x is read once, and what dropout leaves of it lies in registers
// alone.
#include "backends/cuda/narrow.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_X);
  const auto& a = desc.arg(TERN_LORA_SHRINK_A);
  const float rate = desc.attrs<tern_lora_shrink_attrs>().rate;
  return Check(desc, reason)
      .floats({TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_A, TERN_LORA_SHRINK_H})
      .dtype(TERN_LORA_SHRINK_KEYS, TERN_I64)
      .dtype(TERN_LORA_SHRINK_MASK, TERN_U8)
      .rank(TERN_LORA_SHRINK_X, 2)
      .rank(TERN_LORA_SHRINK_A, 2)
      .same_shape({TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_MASK})
      .dim(TERN_LORA_SHRINK_KEYS, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_A, 1, x.shape[1])
      .dim(TERN_LORA_SHRINK_H, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_H, 1, a.shape[0])
      .that(rate >= 0.0F && rate < 1.0F, "the rate must lie in [0, 1)")
      .that(a.shape[0] <= kMostRank, "the rank is over 64")
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_X);
  return narrow_bytes(x.shape[0], x.shape[1], desc.arg(TERN_LORA_SHRINK_A).shape[0], desc.device);
}

Functions functions(const PlanDesc& /*desc*/) { return narrow_functions(); }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_lora_shrink_attrs>();
  const Dropping drop(launch[TERN_LORA_SHRINK_KEYS], launch[TERN_LORA_SHRINK_MASK], attrs.site, attrs.rate);
  NarrowProducts(launch, 0, launch.workspace())
      .shrink(matrix_of(launch[TERN_LORA_SHRINK_X]), matrix_of(launch[TERN_LORA_SHRINK_A]),
              matrix_of(launch[TERN_LORA_SHRINK_H]), attrs.alpha, drop);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_BACKWARD_X);
  const auto& a = desc.arg(TERN_LORA_SHRINK_BACKWARD_A);
  const float rate = desc.attrs<tern_lora_shrink_backward_attrs>().rate;
  return Check(desc, reason)
      .floats({TERN_LORA_SHRINK_BACKWARD_DH, TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_A,
               TERN_LORA_SHRINK_BACKWARD_DX})
      .dtype(TERN_LORA_SHRINK_BACKWARD_KEYS, TERN_I64)
      .dtype(TERN_LORA_SHRINK_BACKWARD_MASK, TERN_U8)
      .dtype(TERN_LORA_SHRINK_BACKWARD_DA, TERN_F32)
      .rank(TERN_LORA_SHRINK_BACKWARD_X, 2)
      .rank(TERN_LORA_SHRINK_BACKWARD_A, 2)
      .same_shape({TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_MASK, TERN_LORA_SHRINK_BACKWARD_DX})
      .same_shape({TERN_LORA_SHRINK_BACKWARD_A, TERN_LORA_SHRINK_BACKWARD_DA})
      .dim(TERN_LORA_SHRINK_BACKWARD_KEYS, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_BACKWARD_A, 1, x.shape[1])
      .dim(TERN_LORA_SHRINK_BACKWARD_DH, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_BACKWARD_DH, 1, a.shape[0])
      .that(rate >= 0.0F && rate < 1.0F, "the rate must lie in [0, 1)")
      .that(a.shape[0] <= kMostRank, "the rank is over 64")
      .ok();
}

std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_BACKWARD_X);
  return narrow_bytes(x.shape[0], x.shape[1], desc.arg(TERN_LORA_SHRINK_BACKWARD_A).shape[0], desc.device);
}

// dx may lie where x does: da, which reads x, comes first.
void run_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_lora_shrink_backward_attrs>();
  const TensorView &dx = launch[TERN_LORA_SHRINK_BACKWARD_DX], &da = launch[TERN_LORA_SHRINK_BACKWARD_DA];
  const Dropping drop(launch[TERN_LORA_SHRINK_BACKWARD_KEYS], launch[TERN_LORA_SHRINK_BACKWARD_MASK], attrs.site,
                      attrs.rate);
  const Matrix dh = matrix_of(launch[TERN_LORA_SHRINK_BACKWARD_DH]);
  if (da.present()) {
    NarrowProducts(launch, 0, launch.workspace())
        .reduce(dh, matrix_of(launch[TERN_LORA_SHRINK_BACKWARD_X]), matrix_of(da), attrs.alpha, drop);
  }
  if (dx.present()) {
    NarrowProducts(launch, 0, launch.workspace())
        .expand(dh, matrix_of(launch[TERN_LORA_SHRINK_BACKWARD_A]), matrix_of(dx), attrs.alpha, drop);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LORA_SHRINK, "lora_shrink", supports, workspace, functions, run},
                                    {TERN_OP_LORA_SHRINK_BACKWARD, "lora_shrink_backward", supports_backward,
                                     workspace_backward, functions, run_backward}};

}  // namespace

KernelList lora_shrink_kernels() { return kKernels; }

}  // namespace tern::cuda
