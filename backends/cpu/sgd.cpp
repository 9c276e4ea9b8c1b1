#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_SGD_PARAM, TERN_F32)
      .dtype(TERN_SGD_BUF, TERN_F32)
      .dtype(TERN_SGD_HYPER, TERN_F32)
      .floats({TERN_SGD_GRAD})
      .dim(TERN_SGD_HYPER, 0, 8)
      .same_shape({TERN_SGD_PARAM, TERN_SGD_BUF, TERN_SGD_GRAD})
      .ok();
}

struct Step {
  float lr, keep, momentum, rest, decay, take_grad, take_buf, grad_scale;
};

// The factors are copied: the compiler can't know that what is written isn't they.
void take(const Step step, const float* grad, std::int64_t n, float* param, float* buf) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = step.grad_scale * grad[i] + step.decay * param[i];
    float move = step.take_grad * g;
    if (buf != nullptr) {
      buf[i] = step.momentum * buf[i] + step.rest * g;
      move += step.take_buf * buf[i];
    }
    param[i] = step.keep * param[i] - step.lr * move;
  }
}

void run(const KernelArgs& args) {
  const TensorView &param = args[TERN_SGD_PARAM], &buf = args[TERN_SGD_BUF], &grad = args[TERN_SGD_GRAD];
  const TensorView& hyper = args[TERN_SGD_HYPER];
  const auto value = [&](int i) { return hyper.data<const float>()[i * hyper.stride(0)]; };
  const Step step{value(0), value(1), value(2), value(3), value(4), value(5), value(6), value(7)};
  const auto walk = make_walk<3>({&param, &buf, &grad});
  const auto& stride = walk.inner_stride;
  const TileIo io(args);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer of_grad;
    const float* g = io.load(grad, at[2], stride[2], n, of_grad.data());
    change_tiles<2>(io, {&param, &buf}, at, stride, n,
                    [&](const auto& tiles) { take(step, g, n, tiles[0], tiles[1]); });
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SGD, "sgd", supports, nullptr, nullptr, run}};

}  // namespace

KernelList sgd_kernels() { return kKernels; }

}  // namespace tern::cpu
