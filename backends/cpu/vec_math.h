// exp and tanh over the vectors of vec_*.h: included after them, in a target region.
#pragma once

namespace tern::cpu {
namespace {

// e^x within 2 ulp; 0 below -87.33 (the results there would be subnormal), inf above 88.72, NaN kept.
template <typename V>
inline __attribute__((always_inline)) typename V::F vexp(typename V::F x) {
  using F = typename V::F;
  const F clamped = V::min(V::set1(88.8F), V::max(V::set1(-88.0F), x));
  const F n = V::round(V::mul(clamped, V::set1(1.44269504F)));
  F r = V::fma(n, V::set1(-0.693359375F), clamped);  // ln 2 in two parts, the first exact in few bits
  r = V::fma(n, V::set1(2.12194440e-4F), r);
  F p = V::set1(1.0F / 5040.0F);
  for (const float c : {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F}) {
    p = V::fma(p, r, V::set1(c));
  }
  // 2^128 and 2^-127 are not floats of their own: the power is applied in two halves.
  const F half = V::round(V::mul(n, V::set1(0.5F)));
  const F y = V::mul(V::mul(p, V::pow2(half)), V::pow2(V::sub(n, half)));
  return V::less_select(x, V::set1(-87.33F), V::zero(), y);
}

// tanh x; a polynomial near 0 keeps the relative error there (S. Moshier, Cephes tanhf).
template <typename V>
inline __attribute__((always_inline)) typename V::F vtanh(typename V::F x) {
  using F = typename V::F;
  const F magnitude = V::abs(x);
  const F e = vexp<V>(V::mul(magnitude, V::set1(2.0F)));
  const F far = V::sub(V::set1(1.0F), V::div(V::set1(2.0F), V::add(e, V::set1(1.0F))));
  const F z = V::mul(x, x);
  F p = V::set1(-5.70498872745e-3F);
  for (const float c : {2.06390887954e-2F, -5.37397155531e-2F, 1.33314422036e-1F, -3.33332819422e-1F}) {
    p = V::fma(p, z, V::set1(c));
  }
  const F near = V::fma(V::mul(p, z), x, x);
  return V::less_select(magnitude, V::set1(0.625F), near, V::copy_sign(far, x));
}

}  // namespace
}  // namespace tern::cpu
