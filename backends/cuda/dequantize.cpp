#include "backends/cuda/kernels.h"
#include "backends/cuda/weight.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const tern_tensor_desc &w = desc.arg(TERN_DEQUANTIZE_W), &y = desc.arg(TERN_DEQUANTIZE_Y);
  if (!Check(desc, reason)
           .floats({TERN_DEQUANTIZE_Y})
           .rank(TERN_DEQUANTIZE_W, 2)
           .rank(TERN_DEQUANTIZE_Y, 2)
           .that(w.rank == y.rank && w.shape[0] == y.shape[0] && w.shape[1] == y.shape[1], "w and y differ in shape")
           .ok()) {
    return false;
  }
  if (w.scheme.packing == TERN_PACK_NONE) return Check(desc, reason).floats({TERN_DEQUANTIZE_W}).ok();
  return expands_weight(w, reason);
}

Functions functions(const PlanDesc& desc) { return {expand_function(desc.arg(TERN_DEQUANTIZE_W).scheme.packing)}; }

void run(const Launch& launch) {
  const TensorView& y = launch[TERN_DEQUANTIZE_Y];
  Expansion all;
  all.rows = y.dim(0);
  all.columns = y.dim(1);
  all.out = y.planes[0];
  all.out_dtype = y.dtype();
  all.out_row = y.stride(0);
  all.out_column = y.stride(1);
  expand_weight(launch.call(0), launch[TERN_DEQUANTIZE_W], all);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DEQUANTIZE, "rows", supports, nullptr, functions, run}};

}  // namespace

KernelList dequantize_kernels() { return kKernels; }

}  // namespace tern::cuda
