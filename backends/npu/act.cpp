// act and act_backward. Every kind is made of elementary functions, which each chip has, in fp32.
#include <cmath>
#include <numbers>

#include "backends/npu/activation.h"

namespace tern::npu {
namespace {

constexpr double kCubic = 0.044715;  // of gelu's approximation by tanh
const double kTanhFactor = std::sqrt(2.0 / std::numbers::pi);

// u = sqrt(2 / pi) (x + 0.044715 x^3)
void gelu_argument(Composer& c, const View& x, const View& u) {
  c.mul(x, x, u);
  c.muls(u, kCubic, u);
  c.adds(u, 1.0, u);
  c.mul(u, x, u);
  c.muls(u, kTanhFactor, u);
}

// x s for s = 0.5 (1 + t), t in place of y
void gate_by_half(Composer& c, const View& x, const View& t, const View& y) {
  c.adds(t, 1.0, t);
  c.muls(t, 0.5, t);
  c.mul(t, x, y);
}

// d/dx of x sigmoid(a x): s (1 + a x (1 - s))
void differentiate_swish(Composer& c, double a, const View& x, const View& slope) {
  const View s = c.temp(ACL_FLOAT, x.shape);
  const View scaled = a == 1.0 ? x : c.temp(ACL_FLOAT, x.shape);
  if (a != 1.0) c.muls(x, a, scaled);
  c.call(TERN_NPU_OP(Sigmoid), scaled, s);
  c.muls(s, -1.0, slope);
  c.adds(slope, 1.0, slope);
  c.mul(slope, scaled, slope);
  c.adds(slope, 1.0, slope);
  c.mul(slope, s, slope);
}

// 0.5 (1 + t) + 0.5 x (1 - t^2) u', u' = k (1 + 3 * 0.044715 x^2)
void differentiate_gelu_tanh(Composer& c, const View& x, const View& slope) {
  const View t = c.temp(ACL_FLOAT, x.shape);
  const View inner = c.temp(ACL_FLOAT, x.shape);
  gelu_argument(c, x, t);
  c.call(TERN_NPU_OP(Tanh), t, t);
  c.mul(x, x, inner);
  c.muls(inner, 3.0 * kCubic, inner);
  c.adds(inner, 1.0, inner);
  c.muls(inner, 0.5 * kTanhFactor, inner);
  c.mul(inner, x, inner);
  c.mul(t, t, slope);
  c.muls(slope, -1.0, slope);
  c.adds(slope, 1.0, slope);
  c.mul(slope, inner, slope);
  c.muls(t, 0.5, t);
  c.adds(t, 0.5, t);
  c.add(slope, t, slope);
}

// 0.5 (1 + erf(x / sqrt 2)) + x exp(-x^2 / 2) / sqrt(2 pi)
void differentiate_gelu_erf(Composer& c, const View& x, const View& slope) {
  const View t = c.temp(ACL_FLOAT, x.shape);
  c.muls(x, std::numbers::sqrt2 / 2.0, t);
  c.call(TERN_NPU_OP(Erf), t, t);
  c.muls(t, 0.5, t);
  c.adds(t, 0.5, t);
  c.mul(x, x, slope);
  c.muls(slope, -0.5, slope);
  c.call(TERN_NPU_OP(Exp), slope, slope);
  c.muls(slope, std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2.0, slope);
  c.mul(slope, x, slope);
  c.add(slope, t, slope);
}

void act(Composer& c) {
  const View x = c.f32(c.arg(TERN_ACT_X));
  const View y = c.result(TERN_ACT_Y);
  if (y.elements() == 0) return;
  activate(c, c.attrs<tern_act_attrs>().kind, x, y);
  c.finish(TERN_ACT_Y, y);
}

void act_backward(Composer& c) {
  const View dy = c.f32(c.arg(TERN_ACT_BACKWARD_DY));
  const View x = c.f32(c.arg(TERN_ACT_BACKWARD_X));
  if (x.elements() == 0) return;
  const View slope = c.temp(ACL_FLOAT, x.shape);
  differentiate(c, c.attrs<tern_act_backward_attrs>().kind, x, slope);
  const View dx = c.result(TERN_ACT_BACKWARD_DX);
  c.mul(slope, dy, dx);
  c.finish(TERN_ACT_BACKWARD_DX, dx);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT, "elements", act, true},
    {TERN_OP_ACT_BACKWARD, "elements", act_backward, true},
};

}  // namespace

void activate(Composer& c, std::int32_t kind, const View& x, const View& y) {
  const View t = c.temp(ACL_FLOAT, x.shape);
  switch (kind) {
    case TERN_ACT_SILU:
      c.call(TERN_NPU_OP(Silu), x, y);
      return;
    case TERN_ACT_SIGMOID:
      c.call(TERN_NPU_OP(Sigmoid), x, y);
      return;
    case TERN_ACT_EXP:
      c.call(TERN_NPU_OP(Exp), x, y);
      return;
    case TERN_ACT_SOFTPLUS:
      c.call(TERN_NPU_OP(Softplus), x, Number{1.0}, Number{20.0}, y);
      return;
    case TERN_ACT_GELU_TANH:
      gelu_argument(c, x, t);
      c.call(TERN_NPU_OP(Tanh), t, t);
      gate_by_half(c, x, t, y);
      return;
    case TERN_ACT_GELU_ERF:
      c.muls(x, std::numbers::sqrt2 / 2.0, t);
      c.call(TERN_NPU_OP(Erf), t, t);
      gate_by_half(c, x, t, y);
      return;
    case TERN_ACT_QUICK_GELU:
      c.muls(x, 1.702, t);
      c.call(TERN_NPU_OP(Sigmoid), t, t);
      c.mul(t, x, y);
      return;
    default:
      c.refuse("kind: no activation of this version has the number " + std::to_string(kind));
  }
}

void differentiate(Composer& c, std::int32_t kind, const View& x, const View& slope) {
  switch (kind) {
    case TERN_ACT_SILU:
      differentiate_swish(c, 1.0, x, slope);
      return;
    case TERN_ACT_QUICK_GELU:
      differentiate_swish(c, 1.702, x, slope);
      return;
    case TERN_ACT_GELU_TANH:
      differentiate_gelu_tanh(c, x, slope);
      return;
    case TERN_ACT_GELU_ERF:
      differentiate_gelu_erf(c, x, slope);
      return;
    case TERN_ACT_SOFTPLUS:
      c.call(TERN_NPU_OP(Sigmoid), x, slope);
      return;
    case TERN_ACT_EXP:
      c.call(TERN_NPU_OP(Exp), x, slope);
      return;
    case TERN_ACT_SIGMOID: {
      const View s = c.temp(ACL_FLOAT, x.shape);
      c.call(TERN_NPU_OP(Sigmoid), x, s);
      c.muls(s, -1.0, slope);
      c.adds(slope, 1.0, slope);
      c.mul(slope, s, slope);
      return;
    }
    default:
      c.refuse("kind: no activation of this version has the number " + std::to_string(kind));
  }
}

KernelList act_kernels() { return kKernels; }

}  // namespace tern::npu
