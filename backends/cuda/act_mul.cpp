#include <limits>

#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

// As cu/act.cu names its kernels.
constexpr const char* kNames[] = {"silu", "gelu_tanh", "gelu_erf", "sigmoid", "softplus", "exp", "quick_gelu"};

bool known(std::int32_t kind) {
  return (kind >= TERN_ACT_SILU && kind <= TERN_ACT_SIGMOID) || kind == TERN_ACT_QUICK_GELU;
}

// Infinity where nothing is clamped.
float limit_of(float limit) { return limit > 0.0F ? limit : std::numeric_limits<float>::infinity(); }

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP, TERN_ACT_MUL_Y})
      .same_shape({TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP, TERN_ACT_MUL_Y})
      .ok();
}

Functions functions(const PlanDesc& desc) { return {cat("act_mul_", kNames[desc.attrs<tern_act_mul_attrs>().kind])}; }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_act_mul_attrs>();
  const TensorView &gate = launch[TERN_ACT_MUL_GATE], &up = launch[TERN_ACT_MUL_UP], &y = launch[TERN_ACT_MUL_Y];
  const Dense dense = make_dense({&y, &gate, &up});
  Call call = launch.call(0);
  call.arg(gate).arg(up).arg(y).arg(dense).arg(limit_of(attrs.limit)).arg(attrs.up_offset);
  call.overlapped().run(dense.walk.units, kDenseThreads);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({0, 1, 2, 3, 4})
      .same_shape({0, 1, 2, 3, 4})
      .ok();
}

Functions functions_backward(const PlanDesc& desc) {
  return {cat("act_mul_backward_", kNames[desc.attrs<tern_act_mul_backward_attrs>().kind])};
}

void run_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_act_mul_backward_attrs>();
  const TensorView& dy = launch[TERN_ACT_MUL_BACKWARD_DY];
  const TensorView &gate = launch[TERN_ACT_MUL_BACKWARD_GATE], &up = launch[TERN_ACT_MUL_BACKWARD_UP];
  const TensorView &dgate = launch[TERN_ACT_MUL_BACKWARD_DGATE], &dup = launch[TERN_ACT_MUL_BACKWARD_DUP];
  const Dense dense = make_dense({&dy, &gate, &up, &dgate, &dup});
  Call call = launch.call(0);
  call.arg(dy).arg(gate).arg(up).arg(dgate).arg(dup).arg(dense).arg(limit_of(attrs.limit)).arg(attrs.up_offset);
  call.run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT_MUL, "act_mul", supports, nullptr, functions, run},
    {TERN_OP_ACT_MUL_BACKWARD, "act_mul_backward", supports_backward, nullptr, functions_backward, run_backward}};

}  // namespace

KernelList act_mul_kernels() { return kKernels; }

}  // namespace tern::cuda
