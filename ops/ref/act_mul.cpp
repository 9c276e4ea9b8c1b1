#include <numbers>
#include <stdexcept>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

// Factors before the derivation's sum: an fp32 exponential, tanh or erf is within 4 ulp of its rounded argument's.
constexpr double kFunction = 8.0;

Activation silu(double x) {
  const double s = 1.0 / (1.0 + std::exp(-x));
  const double rest = 1.0 / (1.0 + std::exp(x));
  // exp(-x) is off by |x| roundings of its argument; s by |x| (1 - s) s of it
  const double s_error = s * (kFunction + std::fabs(x) * rest);
  const double slope = s * (1.0 + x * rest);
  return {x * s, std::fabs(x) * s_error, slope, s_error * (1.0 + std::fabs(x)) + kFunction * std::fabs(slope)};
}

Activation sigmoid(double x) {
  const double s = 1.0 / (1.0 + std::exp(-x));
  const double rest = 1.0 / (1.0 + std::exp(x));
  const double s_error = s * (kFunction + std::fabs(x) * rest);
  return {s, s_error, s * rest, s_error};  // 1 - s is taken in fp32: its error is absolute
}

// Of 1.702 x, which fp32 has with three roundings.
Activation quick_gelu(double x) {
  const double a = 1.702 * x;
  const double s = 1.0 / (1.0 + std::exp(-a));
  const double rest = 1.0 / (1.0 + std::exp(a));
  const double s_error = s * (kFunction + 3.0 * std::fabs(a) * rest);
  const double slope = s * (1.0 + a * rest);
  return {x * s, std::fabs(x) * s_error, slope, s_error * (1.0 + std::fabs(a)) + kFunction * std::fabs(slope)};
}

Activation gelu_tanh(double x) {
  const double a = std::sqrt(2.0 / std::numbers::pi);
  const double inner = a * (x + 0.044715 * x * x * x);
  const double t = std::tanh(inner);
  const double cosh = std::cosh(std::min(std::fabs(inner), 300.0));
  const double t_slope = 1.0 / (cosh * cosh);
  const double t_error = kFunction * (1.0 + std::fabs(inner) * t_slope);  // 1 + t cancels: absolute
  const double inner_slope = a * (1.0 + 3.0 * 0.044715 * x * x);
  const double slope = 0.5 * (1.0 + t) + 0.5 * x * t_slope * inner_slope;
  return {0.5 * x * (1.0 + t), 0.5 * std::fabs(x) * t_error, slope,
          t_error * (0.5 + std::fabs(x) * inner_slope) + kFunction * std::fabs(slope)};
}

Activation gelu_erf(double x) {
  const double e = std::erf(x / std::numbers::sqrt2);
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
  const double e_error = kFunction * (1.0 + std::fabs(x) * density);
  const double slope = 0.5 * (1.0 + e) + x * density;
  return {0.5 * x * (1.0 + e), 0.5 * std::fabs(x) * e_error, slope,
          0.5 * e_error + std::fabs(x) * density * (kFunction + x * x)};
}

// log(1 + exp(x)) without overflow: what exp(-|x|) is off by counts as much as it weighs.
Activation softplus(double x) {
  const double t = std::exp(-std::fabs(x));
  const double value = std::max(x, 0.0) + std::log1p(t);
  const double from_exp = t > 0.0 ? t / (1.0 + t) * std::fabs(x) : 0.0;
  const Activation slope = sigmoid(x);
  return {value, kFunction * value + from_exp, slope.value, slope.value_error};
}

Activation exponential(double x) {
  const double e = std::exp(x);
  const double error = e > 0.0 ? e * (kFunction + std::fabs(x)) : 0.0;
  return {e, error, e, error};
}

}  // namespace

Activation activate(std::int32_t kind, double x) {
  switch (kind) {
    case TERN_ACT_SILU:
      return silu(x);
    case TERN_ACT_GELU_TANH:
      return gelu_tanh(x);
    case TERN_ACT_GELU_ERF:
      return gelu_erf(x);
    case TERN_ACT_SIGMOID:
      return sigmoid(x);
    case TERN_ACT_SOFTPLUS:
      return softplus(x);
    case TERN_ACT_EXP:
      return exponential(x);
    case TERN_ACT_QUICK_GELU:
      return quick_gelu(x);
    default:
      throw std::invalid_argument("no such tern_act");
  }
}

GatedUnit gated_unit(double gate, double up, float limit, float up_offset) {
  GatedUnit at{gate, up, true, true, 0.0};
  if (limit > 0.0F) {
    const double most = limit;
    at.gate_counts = !(gate > most);
    at.up_counts = !(up > most || up < -most);
    if (!at.gate_counts) at.gate = most;
    if (!at.up_counts) at.factor = up > most ? most : -most;
  }
  at.factor_size = std::fabs(at.factor) + std::fabs(up_offset);
  at.factor += up_offset;
  return at;
}

void act_mul(Call& call) {
  const auto attrs = attrs_of<tern_act_mul_attrs>(call);
  const Tensor& gate = input(call, TERN_ACT_MUL_GATE);
  const Tensor& up = input(call, TERN_ACT_MUL_UP);
  Output y(call, TERN_ACT_MUL_Y);
  for (std::size_t i = 0; i < gate.real.size(); ++i) {
    const GatedUnit at = gated_unit(gate.real[i], up.real[i], attrs.limit, attrs.up_offset);
    const Activation act = activate(attrs.kind, at.gate);
    y.add(static_cast<std::int64_t>(i), act.value * at.factor,
          {.roundings = (act.value_error + std::fabs(act.value)) * at.factor_size});
  }
}

}  // namespace tern::ops::ref
