#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

// As cu/act.cu names its kernels.
constexpr const char* kNames[] = {"silu", "gelu_tanh", "gelu_erf", "sigmoid", "softplus", "exp", "quick_gelu"};

bool known(std::int32_t kind) { return kind >= TERN_ACT_SILU && kind <= TERN_ACT_QUICK_GELU; }

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_X, TERN_ACT_Y})
      .same_shape({TERN_ACT_X, TERN_ACT_Y})
      .ok();
}

Functions functions(const PlanDesc& desc) { return {cat("act_", kNames[desc.attrs<tern_act_attrs>().kind])}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_ACT_X], &y = launch[TERN_ACT_Y];
  const Dense dense = make_dense({&y, &x});
  launch.call(0).arg(x).arg(y).arg(dense).run(dense.walk.units, kDenseThreads);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .same_shape({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .ok();
}

Functions functions_backward(const PlanDesc& desc) {
  return {cat("act_backward_", kNames[desc.attrs<tern_act_backward_attrs>().kind])};
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_ACT_BACKWARD_DY], &x = launch[TERN_ACT_BACKWARD_X];
  const TensorView& dx = launch[TERN_ACT_BACKWARD_DX];
  const Dense dense = make_dense({&dx, &dy, &x});
  launch.call(0).arg(dy).arg(x).arg(dx).arg(dense).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT, "act", supports, nullptr, functions, run},
    {TERN_OP_ACT_BACKWARD, "act_backward", supports_backward, nullptr, functions_backward, run_backward}};

}  // namespace

KernelList act_kernels() { return kKernels; }

}  // namespace tern::cuda
