// adamw: one step over fp32 masters. CANN's ApplyAdamWV2 takes the step's numbers from the host and one dtype; ours lie
// on the device, so that one captured program serves every step.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

enum Hyper {
  kLr,
  kBeta1,
  kBeta2,
  kOneMinusBeta1,
  kOneMinusBeta2,
  kEps,
  kDecay,
  kCorrection1,
  kCorrection2,
  kGradScale
};

void compose(Composer& c) {
  const View param = c.arg(TERN_ADAMW_PARAM);
  const View m = c.arg(TERN_ADAMW_M);
  const View v = c.arg(TERN_ADAMW_V);
  if (param.elements() == 0) return;
  const View hyper = c.arg(TERN_ADAMW_HYPER);
  const auto number = [&](Hyper which) { return hyper.slice(0, which, 1); };
  const View g = c.temp(ACL_FLOAT, param.shape);
  const View t = c.temp(ACL_FLOAT, param.shape);
  c.mul(c.f32(c.arg(TERN_ADAMW_GRAD)), number(kGradScale), g);
  c.mul(m, number(kBeta1), m);
  c.mul(g, number(kOneMinusBeta1), t);
  c.add(m, t, m);
  c.mul(v, number(kBeta2), v);
  c.mul(g, g, t);
  c.mul(t, number(kOneMinusBeta2), t);
  c.add(v, t, v);
  // t = sqrt(v / correction2) + eps, g = lr (m / correction1) / t
  c.call(TERN_NPU_OP(Div), v, number(kCorrection2), t);
  c.call(TERN_NPU_OP(Sqrt), t, t);
  c.add(t, number(kEps), t);
  c.call(TERN_NPU_OP(Div), m, number(kCorrection1), g);
  c.call(TERN_NPU_OP(Div), g, t, g);
  c.mul(g, number(kLr), g);
  const View keep = c.temp(ACL_FLOAT, {1});
  c.mul(number(kLr), number(kDecay), keep);
  c.muls(keep, -1.0, keep);
  c.adds(keep, 1.0, keep);
  c.mul(param, keep, param);
  c.add(param, g, param, -1.0);
  if (c.present(TERN_ADAMW_COPY)) c.copy(c.arg(TERN_ADAMW_COPY), param);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW, "elements", compose, true}};

}  // namespace

KernelList adamw_kernels() { return kKernels; }

}  // namespace tern::npu
