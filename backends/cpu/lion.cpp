#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_LION_PARAM, TERN_F32)
      .dtype(TERN_LION_M, TERN_F32)
      .dtype(TERN_LION_HYPER, TERN_F32)
      .floats({TERN_LION_GRAD})
      .dim(TERN_LION_HYPER, 0, 7)
      .same_shape({TERN_LION_PARAM, TERN_LION_M, TERN_LION_GRAD})
      .ok();
}

struct Step {
  float lr, keep, beta1, rest1, beta2, rest2, grad_scale;
};

// The factors are copied: the compiler can't know that what is written isn't they. NaN stays NaN.
void take(const Step step, const float* grad, std::int64_t n, float* param, float* m) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = step.grad_scale * grad[i];
    const float sum = step.beta1 * m[i] + step.rest1 * g;
    const float sign = sum > 0.0F ? 1.0F : sum < 0.0F ? -1.0F : sum;
    param[i] = step.keep * param[i] - step.lr * sign;
    m[i] = step.beta2 * m[i] + step.rest2 * g;
  }
}

void run(const KernelArgs& args) {
  const TensorView &param = args[TERN_LION_PARAM], &m = args[TERN_LION_M], &grad = args[TERN_LION_GRAD];
  const TensorView& hyper = args[TERN_LION_HYPER];
  const auto value = [&](int i) { return hyper.data<const float>()[i * hyper.stride(0)]; };
  const Step step{value(0), value(1), value(2), value(3), value(4), value(5), value(6)};
  const auto walk = make_walk<3>({&param, &m, &grad});
  const auto& stride = walk.inner_stride;
  const TileIo io(args);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer of_grad;
    const float* g = io.load(grad, at[2], stride[2], n, of_grad.data());
    change_tiles<2>(io, {&param, &m}, at, stride, n, [&](const auto& tiles) { take(step, g, n, tiles[0], tiles[1]); });
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LION, "lion", supports, nullptr, nullptr, run}};

}  // namespace

KernelList lion_kernels() { return kKernels; }

}  // namespace tern::cpu
