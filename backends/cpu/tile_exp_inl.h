// Loops over whole vectors and what is left over, and exponentials in them: what tile_math.cpp and tile_act_inl.h
// share.
#if defined(TERN_BACKENDS_CPU_TILE_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_BACKENDS_CPU_TILE_EXP_INL_H
#undef TERN_BACKENDS_CPU_TILE_EXP_INL_H
#else
#define TERN_BACKENDS_CPU_TILE_EXP_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

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

}  // namespace
}  // namespace tern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // compiled once for each target
