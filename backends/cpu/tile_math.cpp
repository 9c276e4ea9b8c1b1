#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/tile_math.h"

HWY_BEFORE_NAMESPACE();
namespace tern::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;

// f(d, i) for each whole vector, then for each element left over: an element sees the same operations either way.
template <typename F>
HWY_INLINE void each(std::size_t n, F&& f) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  const One one;
  for (; i < n; ++i) f(one, i);
}

// Four chains of vectors, then what is left over, added up in this order.
template <typename Term>
HWY_INLINE float total(std::size_t n, Term&& term) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = term(d, i, a0);
    a1 = term(d, i + lanes, a1);
    a2 = term(d, i + 2 * lanes, a2);
    a3 = term(d, i + 3 * lanes, a3);
  }
  for (; i + lanes <= n; i += lanes) a0 = term(d, i, a0);
  const One one;
  auto rest = hn::Zero(one);
  for (; i < n; ++i) rest = term(one, i, rest);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)))) + hn::GetLane(rest);
}

void axpby(float a, const float* x, float b, const float* y, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto by = hn::Mul(hn::Set(d, b), hn::LoadU(d, y + i));
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), by), d, out + i);
  });
}

void scale(float factor, const float* x, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i)
              HWY_ATTR { hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i)), d, out + i); });
}

void mul(const float* x, const float* y, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i)
              HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i); });
}

void add(const float* x, const float* y, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i)
              HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i); });
}

void mul_add(float factor, const float* x, const float* y, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto fx = hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i));
    hn::StoreU(hn::MulAdd(fx, hn::LoadU(d, y + i), hn::LoadU(d, out + i)), d, out + i);
  });
}

void select(const std::uint8_t* keep, const float* x, float factor, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::int32_t, decltype(d)> di;
    const hn::Rebind<std::uint8_t, decltype(d)> db;
    const auto dropped = hn::Eq(hn::PromoteTo(di, hn::LoadU(db, keep + i)), hn::Zero(di));
    const auto kept = hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, dropped), hn::Zero(d), kept), d, out + i);
  });
}

float sum(const float* x, std::size_t n) {
  return total(n, [=](auto d, std::size_t i, auto acc) HWY_ATTR { return hn::Add(acc, hn::LoadU(d, x + i)); });
}

float dot(const float* x, const float* y, std::size_t n) {
  return total(n, [=](auto d, std::size_t i, auto acc)
                      HWY_ATTR { return hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), acc); });
}

float dot3(const float* x, const float* y, const float* z, std::size_t n) {
  return total(n, [=](auto d, std::size_t i, auto acc) HWY_ATTR {
    return hn::MulAdd(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), hn::LoadU(d, z + i), acc);
  });
}

float max(const float* x, std::size_t n) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto best = hn::Set(d, -HUGE_VALF);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    best = hn::IfThenElse(hn::Gt(v, best), v, best);
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// e^x for x from -104 to 90 (Cody and Waite's reduction, degree 6): within 2 ulp, gradual underflow, infinity
// above 88.7.
template <typename D, typename V>
HWY_INLINE V exp_between(D d, V clamped) {
  const hn::Rebind<std::int32_t, D> di;
  const V n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  V r = hn::MulAdd(n, hn::Set(d, -0.693359375F), clamped);  // ln 2 in two parts, the first exact in few bits
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4F), r);
  V p = hn::Set(d, 1.0F / 5040.0F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 720.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 120.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 24.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 6.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5F));
  p = hn::MulAdd(hn::Mul(p, r), r, hn::Add(r, hn::Set(d, 1.0F)));
  const auto power = hn::ConvertTo(di, n);  // -150 to 130: applied in two halves, each a normal float
  const auto half = hn::ShiftRight<1>(power);
  const auto bias = hn::Set(di, 127);
  const V low = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V high = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(power, half), bias)));
  return hn::Mul(hn::Mul(p, low), high);
}

// e^x for x <= 0: 0 below -104, NaN kept.
template <typename D, typename V>
HWY_INLINE V exp_negative(D d, V x) {
  const V least = hn::Set(d, -104.0F);
  const V y = exp_between(d, hn::IfThenElse(hn::Lt(x, least), least, x));
  return hn::IfThenElse(hn::Eq(x, x), hn::IfThenZeroElse(hn::Lt(x, least), y), x);
}

// e^x for any x.
template <typename D, typename V>
HWY_INLINE V exp_any(D d, V x) {
  const V most = hn::Set(d, 90.0F);
  return exp_negative(d, hn::IfThenElse(hn::Gt(x, most), most, x));
}

// log(1 + t) for t from 0 to 1: 2 atanh(t / (2 + t)), whose series ends where nothing is left to round.
template <typename D, typename V>
HWY_INLINE V log1p_to_one(D d, V t) {
  const V s = hn::Div(t, hn::Add(hn::Set(d, 2.0F), t));
  const V square = hn::Mul(s, s);
  V p = hn::Set(d, 1.0F / 15.0F);
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 13.0F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 11.0F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 9.0F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 7.0F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 5.0F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.0F / 3.0F));
  const V twice = hn::Add(s, s);
  return hn::MulAdd(hn::Mul(p, square), twice, twice);
}

float sum_exp(const float* x, float shift, std::size_t n) {
  return total(n, [=](auto d, std::size_t i, auto acc) HWY_ATTR {
    return hn::Add(acc, exp_negative(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift))));
  });
}

bool all_finite(const float* x, std::size_t n) {
  bool finite = true;
  each(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    const auto zero = hn::Zero(d);  // 0 * v is 0 for every finite v and NaN for the others
    finite = finite && hn::AllTrue(d, hn::Eq(hn::Mul(v, zero), zero));
  });
  return finite;
}

void norm(const float* x, float rstd, const float* w, std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto normal = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
    hn::StoreU(hn::Mul(normal, hn::LoadU(d, w + i)), d, out + i);
  });
}

void norm_backward(const float* dy, const float* w, const float* x, float rstd, float pull, const float* carried,
                   std::size_t n, float* out) {
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, w + i));
    const auto inner = hn::NegMulAdd(hn::LoadU(d, x + i), hn::Set(d, pull), g);
    const auto pushed = hn::Mul(hn::Set(d, rstd), inner);
    hn::StoreU(carried != nullptr ? hn::Add(hn::LoadU(d, carried + i), pushed) : pushed, d, out + i);
  });
}

void rotate(const float* x, const float* cos, const float* sin, float sign, std::size_t half, bool interleaved,
            float* out) {
  if (!interleaved) {
    each(half, [=](auto d, std::size_t i) HWY_ATTR {
      const auto u = hn::LoadU(d, x + i), w = hn::LoadU(d, x + half + i);
      const auto c = hn::LoadU(d, cos + i), s = hn::Mul(hn::Set(d, sign), hn::LoadU(d, sin + i));
      hn::StoreU(hn::NegMulAdd(w, s, hn::Mul(u, c)), d, out + i);
      hn::StoreU(hn::MulAdd(u, s, hn::Mul(w, c)), d, out + half + i);
    });
    return;
  }
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    hn::Vec<Floats> u, w;
    hn::LoadInterleaved2(d, x + 2 * i, u, w);
    const auto c = hn::LoadU(d, cos + i), s = hn::Mul(hn::Set(d, sign), hn::LoadU(d, sin + i));
    hn::StoreInterleaved2(hn::NegMulAdd(w, s, hn::Mul(u, c)), hn::MulAdd(u, s, hn::Mul(w, c)), d, out + 2 * i);
  }
  const One one;
  for (; i < half; ++i) {
    const auto u = hn::LoadU(one, x + 2 * i), w = hn::LoadU(one, x + 2 * i + 1);
    const auto c = hn::LoadU(one, cos + i), s = hn::Mul(hn::Set(one, sign), hn::LoadU(one, sin + i));
    hn::StoreU(hn::NegMulAdd(w, s, hn::Mul(u, c)), one, out + 2 * i);
    hn::StoreU(hn::MulAdd(u, s, hn::Mul(w, c)), one, out + 2 * i + 1);
  }
}

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

// Both halves of the 64-bit products of every lane with m: two multiplications of alternate lanes, put together.
template <typename D, typename V>
HWY_INLINE void multiply_wide(D d, V a, V m, V& high, V& low) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), m);
  const auto upper = hn::Set(d64, 0xFFFFFFFF00000000ULL);
  high = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
  low = hn::BitCast(d, hn::Or(hn::AndNot(upper, even), hn::ShiftLeft<32>(odd)));
}

// Philox 4x32-10 as base/philox.h, a vector of counters at once.
void philox_keep(std::uint64_t key, std::uint32_t first_block, std::uint32_t site, float rate, std::size_t blocks,
                 std::uint8_t* keep) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN std::uint32_t rest[HWY_MAX_BYTES / 4];
  const auto m0 = hn::Set(d, 0xD2511F53U), m1 = hn::Set(d, 0xCD9E8D57U);
  // uniform24 >= rate is a comparison of whole numbers: scaling by 2^24 is exact.
  const hn::Rebind<std::int32_t, decltype(d)> di;
  const auto bound = hn::Set(di, static_cast<std::int32_t>(std::ceil(static_cast<double>(rate) * 0x1p24)));
  for (std::size_t b = 0; b < blocks; b += lanes) {
    auto c0 = hn::Add(hn::Iota(d, 0), hn::Set(d, first_block + static_cast<std::uint32_t>(b)));
    auto c1 = hn::Set(d, site), c2 = hn::Zero(d), c3 = hn::Zero(d);
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      auto high0 = c0, low0 = c0, high1 = c2, low1 = c2;
      multiply_wide(d, c0, m0, high0, low0);
      multiply_wide(d, c2, m1, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c3 = low0;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    // A block's four answers are the bytes of one lane.
    const auto answer = [&](auto bits, std::uint32_t one) HWY_ATTR {
      const auto dropped = hn::Lt(hn::BitCast(di, hn::ShiftRight<8>(bits)), bound);
      return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, one));
    };
    const auto kept =
        hn::Or(hn::Or(answer(c0, 1U), answer(c1, 1U << 8U)), hn::Or(answer(c2, 1U << 16U), answer(c3, 1U << 24U)));
    if (blocks - b >= lanes) {
      hn::StoreU(kept, d, reinterpret_cast<std::uint32_t*>(keep + 4 * b));
    } else {
      hn::Store(kept, d, rest);
      std::memcpy(keep + 4 * b, rest, 4 * (blocks - b));
    }
  }
}

void adamw(const AdamwStep& step, const float* grad, std::size_t n, float* param, float* m, float* v) {
  const float keep = 1.0F - step.lr * step.decay;
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, grad + i), hn::Set(d, step.grad_scale));
    const auto m1 = hn::MulAdd(hn::Set(d, step.beta1), hn::LoadU(d, m + i), hn::Mul(hn::Set(d, step.rest1), g));
    const auto v1 =
        hn::MulAdd(hn::Set(d, step.beta2), hn::LoadU(d, v + i), hn::Mul(hn::Set(d, step.rest2), hn::Mul(g, g)));
    hn::StoreU(m1, d, m + i);
    hn::StoreU(v1, d, v + i);
    const auto root = hn::Sqrt(hn::Div(v1, hn::Set(d, step.correction2)));
    const auto move = hn::Div(hn::Mul(hn::Set(d, step.lr), hn::Div(m1, hn::Set(d, step.correction1))),
                              hn::Add(root, hn::Set(d, step.eps)));
    hn::StoreU(hn::MulSub(hn::LoadU(d, param + i), hn::Set(d, keep), move), d, param + i);
  });
}

// One column, or one vector of them, after the other, each with two chains of sums over the keys.
void delta_rule(const DeltaRow& row, std::size_t columns, std::size_t stride, float* s, float* u, float* out) {
  each(columns, [=](auto d, std::size_t c) HWY_ATTR {
    float* column = s + c;
    const auto kept = hn::Set(d, row.kept);
    auto even = hn::Zero(d), odd = hn::Zero(d);
    std::size_t i = 0;
    for (; i + 2 <= row.keys; i += 2) {
      float *s0 = column + i * stride, *s1 = s0 + stride;
      const auto v0 = hn::Mul(kept, hn::LoadU(d, s0)), v1 = hn::Mul(kept, hn::LoadU(d, s1));
      hn::StoreU(v0, d, s0);
      hn::StoreU(v1, d, s1);
      even = hn::MulAdd(hn::Set(d, row.k[i]), v0, even);
      odd = hn::MulAdd(hn::Set(d, row.k[i + 1]), v1, odd);
    }
    if (i < row.keys) {
      const auto v0 = hn::Mul(kept, hn::LoadU(d, column + i * stride));
      hn::StoreU(v0, d, column + i * stride);
      even = hn::MulAdd(hn::Set(d, row.k[i]), v0, even);
    }
    const auto residual = hn::Sub(hn::LoadU(d, row.v + c), hn::Add(even, odd));
    if (u != nullptr) hn::StoreU(residual, d, u + c);
    const auto delta = hn::Mul(hn::Set(d, row.beta), residual);
    if (row.q == nullptr) {
      for (i = 0; i < row.keys; ++i) {
        float* s0 = column + i * stride;
        hn::StoreU(hn::MulAdd(hn::Set(d, row.k[i]), delta, hn::LoadU(d, s0)), d, s0);
      }
      return;
    }
    even = odd = hn::Zero(d);
    for (i = 0; i + 2 <= row.keys; i += 2) {
      float *s0 = column + i * stride, *s1 = s0 + stride;
      const auto v0 = hn::MulAdd(hn::Set(d, row.k[i]), delta, hn::LoadU(d, s0));
      const auto v1 = hn::MulAdd(hn::Set(d, row.k[i + 1]), delta, hn::LoadU(d, s1));
      hn::StoreU(v0, d, s0);
      hn::StoreU(v1, d, s1);
      even = hn::MulAdd(hn::Set(d, row.q[i]), v0, even);
      odd = hn::MulAdd(hn::Set(d, row.q[i + 1]), v1, odd);
    }
    if (i < row.keys) {
      float* s0 = column + i * stride;
      const auto v0 = hn::MulAdd(hn::Set(d, row.k[i]), delta, hn::LoadU(d, s0));
      hn::StoreU(v0, d, s0);
      even = hn::MulAdd(hn::Set(d, row.q[i]), v0, even);
    }
    hn::StoreU(hn::Add(even, odd), d, out + c);
  });
}

// One column, or one vector of them, after the other, with two chains of sums over the states.
void selective_scan(const ScanRow& row, std::size_t columns, std::size_t stride, float* s, float* out) {
  each(columns, [=](auto d, std::size_t c) HWY_ATTR {
    float* column = s + c;
    const auto kept = hn::Set(d, row.kept), x = hn::LoadU(d, row.x + c);
    const auto advance = [&](std::size_t i) HWY_ATTR {
      float* at = column + i * stride;
      const auto v = hn::MulAdd(kept, hn::LoadU(d, at), hn::Mul(hn::Set(d, row.b[i]), x));
      hn::StoreU(v, d, at);
      return v;
    };
    if (row.c == nullptr) {
      for (std::size_t i = 0; i < row.states; ++i) advance(i);
      return;
    }
    auto even = hn::Zero(d), odd = hn::Zero(d);
    std::size_t i = 0;
    for (; i + 2 <= row.states; i += 2) {
      even = hn::MulAdd(hn::Set(d, row.c[i]), advance(i), even);
      odd = hn::MulAdd(hn::Set(d, row.c[i + 1]), advance(i + 1), odd);
    }
    if (i < row.states) even = hn::MulAdd(hn::Set(d, row.c[i]), advance(i), even);
    hn::StoreU(hn::Add(even, odd), d, out + c);
  });
}

constexpr TileMath kTable = {
    .axpby = axpby,
    .scale = scale,
    .mul = mul,
    .add = add,
    .mul_add = mul_add,
    .select = select,
    .sum = sum,
    .dot = dot,
    .dot3 = dot3,
    .max = max,
    .sum_exp = sum_exp,
    .all_finite = all_finite,
    .norm = norm,
    .norm_backward = norm_backward,
    .rotate = rotate,
    .act = act,
    .act_backward = act_backward,
    .act_mul = act_mul,
    .act_mul_backward = act_mul_backward,
    .delta_rule = delta_rule,
    .selective_scan = selective_scan,
    .philox_keep = philox_keep,
    .adamw = adamw,
};

}  // namespace

const TileMath& table() { return kTable; }

}  // namespace tern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::cpu {

const TileMath& tile_math(Target target) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX2
    case Target::avx2:
      return N_AVX2::table();
#endif
#if HWY_TARGETS & HWY_AVX3
    case Target::avx512:
      return N_AVX3::table();
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case Target::avx512_vnni:
    case Target::avx512_bf16:
    case Target::amx_bf16:
      return N_AVX3_DL::table();
#endif
#if HWY_TARGETS & HWY_SVE
    case Target::sve:
      return N_SVE::table();
#endif
#if HWY_TARGETS & HWY_SVE2
    case Target::sve2:
      return N_SVE2::table();
#endif
    default:
      return HWY_STATIC_DISPATCH(table)();
  }
}

}  // namespace tern::cpu
#endif
