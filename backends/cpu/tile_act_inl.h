// Activations, alone and times a second factor, and their gradients (ops/act.h, ops/act_mul.h): a part of
// tile_math.cpp.
#if defined(TERN_BACKENDS_CPU_TILE_ACT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_BACKENDS_CPU_TILE_ACT_INL_H
#undef TERN_BACKENDS_CPU_TILE_ACT_INL_H
#else
#define TERN_BACKENDS_CPU_TILE_ACT_INL_H
#endif

#include "backends/cpu/tile_exp_inl.h"
#include "backends/cpu/tile_math.h"

HWY_BEFORE_NAMESPACE();
namespace tern::cpu::HWY_NAMESPACE {
namespace {
// s = sigmoid(x) and rest = sigmoid(-x), which 1 - s would cancel in. Vectors are no members: SVE's have no size.
template <typename D, typename V>
HWY_INLINE void sigmoids(D d, V x, V& s, V& rest) {
  const V one = hn::Set(d, 1.0F);
  const V e = exp_negative(d, hn::Neg(hn::Abs(x)));
  const V large = hn::Div(one, hn::Add(one, e));
  const V small = hn::Mul(e, large);
  const auto negative = hn::Lt(x, hn::Zero(d));
  s = hn::IfThenElse(negative, small, large);
  rest = hn::IfThenElse(negative, large, small);
}

// The normal distribution's Phi(x) = erfc(-x / sqrt 2) / 2, erfc to a relative 1.2e-7 by the Chebyshev fit of Press et
// al., "Numerical Recipes", 6.2.2.
template <typename D, typename V>
HWY_INLINE V normal_cdf(D d, V x) {
  const V z = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678F));
  const V t = hn::Div(hn::Set(d, 1.0F), hn::MulAdd(hn::Set(d, 0.5F), z, hn::Set(d, 1.0F)));
  V p = hn::Set(d, 0.17087277F);
  p = hn::MulAdd(p, t, hn::Set(d, -0.82215223F));
  p = hn::MulAdd(p, t, hn::Set(d, 1.48851587F));
  p = hn::MulAdd(p, t, hn::Set(d, -1.13520398F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.27886807F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.18628806F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.09678418F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.37409196F));
  p = hn::MulAdd(p, t, hn::Set(d, 1.00002368F));
  p = hn::MulAdd(p, t, hn::Set(d, -1.26551223F));
  const V tail = hn::Mul(hn::Set(d, 0.5F), hn::Mul(t, exp_negative(d, hn::NegMulAdd(z, z, p))));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0F), tail));
}

constexpr float kGeluTanh = 0.797884561F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;

// |x| beyond 16 changes nothing in a gelu's slope but could overflow on the way; NaN passes.
template <typename D, typename V>
HWY_INLINE V limit16(D d, V x) {
  const V top = hn::Set(d, 16.0F), bottom = hn::Set(d, -16.0F);
  return hn::IfThenElse(hn::Gt(x, top), top, hn::IfThenElse(hn::Lt(x, bottom), bottom, x));
}

// The activation, and its derivative if kSlope.
template <std::int32_t kKind, bool kSlope, typename D, typename V>
HWY_INLINE V activate(D d, V x, V& slope) {
  const V one = hn::Set(d, 1.0F);
  V s = x, rest = x;
  if constexpr (kKind == TERN_ACT_SILU) {
    sigmoids(d, x, s, rest);
    if constexpr (kSlope) slope = hn::Mul(s, hn::MulAdd(x, rest, one));
    return hn::Mul(x, s);
  } else if constexpr (kKind == TERN_ACT_SIGMOID) {
    sigmoids(d, x, s, rest);
    if constexpr (kSlope) slope = hn::Mul(s, rest);
    return s;
  } else if constexpr (kKind == TERN_ACT_SOFTPLUS) {
    if constexpr (kSlope) sigmoids(d, x, slope, rest);
    const V zero = hn::Zero(d);
    const V above = hn::IfThenElse(hn::Lt(x, zero), zero, x);  // NaN passes
    return hn::Add(above, log1p_to_one(d, exp_negative(d, hn::Neg(hn::Abs(x)))));
  } else if constexpr (kKind == TERN_ACT_EXP) {
    const V value = exp_any(d, x);
    if constexpr (kSlope) slope = value;
    return value;
  } else if constexpr (kKind == TERN_ACT_QUICK_GELU) {
    const V steep = hn::Set(d, 1.702F);
    sigmoids(d, hn::Mul(steep, x), s, rest);
    if constexpr (kSlope) slope = hn::Mul(s, hn::MulAdd(steep, hn::Mul(x, rest), one));
    return hn::Mul(x, s);
  } else if constexpr (kKind == TERN_ACT_GELU_TANH) {
    const V l = limit16(d, x);  // 1 + tanh u = 2 sigmoid(2 u)
    const V square = hn::Mul(l, l);
    const V u2 = hn::Mul(hn::Mul(hn::Set(d, 2.0F * kGeluTanh), l), hn::MulAdd(hn::Set(d, kGeluCube), square, one));
    sigmoids(d, u2, s, rest);
    const V inner = hn::MulAdd(hn::Set(d, 6.0F * kGeluTanh * kGeluCube), square, hn::Set(d, 2.0F * kGeluTanh));
    if constexpr (kSlope) slope = hn::MulAdd(hn::Mul(l, s), hn::Mul(rest, inner), s);
    return hn::Mul(x, s);
  } else {
    const V l = limit16(d, x);
    const V phi = normal_cdf(d, l);
    if constexpr (kSlope) {
      const V density = hn::Mul(hn::Set(d, 0.398942280F), exp_negative(d, hn::Mul(hn::Set(d, -0.5F), hn::Mul(l, l))));
      slope = hn::MulAdd(l, density, phi);
    }
    return hn::Mul(x, phi);
  }
}

// x within [-limit, limit]; NaN passes.
template <typename D, typename V>
HWY_INLINE V within(D d, V x, float limit) {
  const V top = hn::Set(d, limit), bottom = hn::Set(d, -limit);
  return hn::IfThenElse(hn::Gt(x, top), top, hn::IfThenElse(hn::Lt(x, bottom), bottom, x));
}

template <std::int32_t kKind>
void act_mul_of(const GatedAct& act, const float* gate, const float* up, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto unused = hn::Zero(d);
    const auto top = hn::Set(d, act.limit);
    const auto x = hn::LoadU(d, gate + i);
    const auto value = activate<kKind, false>(d, hn::IfThenElse(hn::Gt(x, top), top, x), unused);
    const auto factor = hn::Add(within(d, hn::LoadU(d, up + i), act.limit), hn::Set(d, act.up_offset));
    hn::StoreU(hn::Mul(value, factor), d, out + i);
  });
}

template <std::int32_t kKind>
void act_mul_backward_of(const GatedAct& act, const float* dy, const float* gate, const float* up, std::size_t n,
                         float* dgate, float* dup) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto slope = hn::Zero(d);
    const auto top = hn::Set(d, act.limit);
    const auto x = hn::LoadU(d, gate + i);
    const auto value = activate<kKind, true>(d, hn::IfThenElse(hn::Gt(x, top), top, x), slope);
    const auto g = hn::LoadU(d, dy + i);
    const auto u = hn::LoadU(d, up + i);
    const auto factor = hn::Add(within(d, u, act.limit), hn::Set(d, act.up_offset));
    const auto zero = hn::Zero(d);
    hn::StoreU(hn::IfThenElse(hn::Gt(x, top), zero, hn::Mul(hn::Mul(g, factor), slope)), d, dgate + i);
    hn::StoreU(hn::IfThenElse(hn::Gt(hn::Abs(u), top), zero, hn::Mul(g, value)), d, dup + i);
  });
}

template <std::int32_t kKind>
void act_of(const float* x, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto unused = hn::Zero(d);
    hn::StoreU(activate<kKind, false>(d, hn::LoadU(d, x + i), unused), d, out + i);
  });
}

template <std::int32_t kKind>
void act_backward_of(const float* dy, const float* x, std::size_t n, float* dx) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    auto slope = hn::Zero(d);
    activate<kKind, true>(d, hn::LoadU(d, x + i), slope);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), slope), d, dx + i);
  });
}

void act(std::int32_t kind, const float* x, std::size_t n, float* out) {
  switch (kind) {
    case TERN_ACT_SILU:
      return act_of<TERN_ACT_SILU>(x, n, out);
    case TERN_ACT_SIGMOID:
      return act_of<TERN_ACT_SIGMOID>(x, n, out);
    case TERN_ACT_GELU_TANH:
      return act_of<TERN_ACT_GELU_TANH>(x, n, out);
    case TERN_ACT_SOFTPLUS:
      return act_of<TERN_ACT_SOFTPLUS>(x, n, out);
    case TERN_ACT_EXP:
      return act_of<TERN_ACT_EXP>(x, n, out);
    case TERN_ACT_QUICK_GELU:
      return act_of<TERN_ACT_QUICK_GELU>(x, n, out);
    default:
      return act_of<TERN_ACT_GELU_ERF>(x, n, out);
  }
}

void act_backward(std::int32_t kind, const float* dy, const float* x, std::size_t n, float* dx) {
  switch (kind) {
    case TERN_ACT_SILU:
      return act_backward_of<TERN_ACT_SILU>(dy, x, n, dx);
    case TERN_ACT_SIGMOID:
      return act_backward_of<TERN_ACT_SIGMOID>(dy, x, n, dx);
    case TERN_ACT_GELU_TANH:
      return act_backward_of<TERN_ACT_GELU_TANH>(dy, x, n, dx);
    case TERN_ACT_SOFTPLUS:
      return act_backward_of<TERN_ACT_SOFTPLUS>(dy, x, n, dx);
    case TERN_ACT_EXP:
      return act_backward_of<TERN_ACT_EXP>(dy, x, n, dx);
    case TERN_ACT_QUICK_GELU:
      return act_backward_of<TERN_ACT_QUICK_GELU>(dy, x, n, dx);
    default:
      return act_backward_of<TERN_ACT_GELU_ERF>(dy, x, n, dx);
  }
}

void act_mul(const GatedAct& act, const float* gate, const float* up, std::size_t n, float* out) {
  switch (act.kind) {
    case TERN_ACT_SILU:
      return act_mul_of<TERN_ACT_SILU>(act, gate, up, n, out);
    case TERN_ACT_SIGMOID:
      return act_mul_of<TERN_ACT_SIGMOID>(act, gate, up, n, out);
    case TERN_ACT_GELU_TANH:
      return act_mul_of<TERN_ACT_GELU_TANH>(act, gate, up, n, out);
    case TERN_ACT_QUICK_GELU:
      return act_mul_of<TERN_ACT_QUICK_GELU>(act, gate, up, n, out);
    default:
      return act_mul_of<TERN_ACT_GELU_ERF>(act, gate, up, n, out);
  }
}

void act_mul_backward(const GatedAct& act, const float* dy, const float* gate, const float* up, std::size_t n,
                      float* dgate, float* dup) {
  switch (act.kind) {
    case TERN_ACT_SILU:
      return act_mul_backward_of<TERN_ACT_SILU>(act, dy, gate, up, n, dgate, dup);
    case TERN_ACT_SIGMOID:
      return act_mul_backward_of<TERN_ACT_SIGMOID>(act, dy, gate, up, n, dgate, dup);
    case TERN_ACT_GELU_TANH:
      return act_mul_backward_of<TERN_ACT_GELU_TANH>(act, dy, gate, up, n, dgate, dup);
    case TERN_ACT_QUICK_GELU:
      return act_mul_backward_of<TERN_ACT_QUICK_GELU>(act, dy, gate, up, n, dgate, dup);
    default:
      return act_mul_backward_of<TERN_ACT_GELU_ERF>(act, dy, gate, up, n, dgate, dup);
  }
}

}  // namespace
}  // namespace tern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // compiled once for each target
