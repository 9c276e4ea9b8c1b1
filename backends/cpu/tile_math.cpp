#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/tile_math.h"
#include "backends/cpu/tile_act_inl.h"
#include "backends/cpu/tile_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::cpu::HWY_NAMESPACE {
namespace {

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

// Eight dot products with x at once: each of its vectors is loaded once.
HWY_INLINE void shrink8(const float* x, const float* a, std::size_t stride, std::size_t n, float* h) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const float* at = a + i;
    s0 = hn::MulAdd(v, hn::LoadU(d, at), s0);
    s1 = hn::MulAdd(v, hn::LoadU(d, at + stride), s1);
    s2 = hn::MulAdd(v, hn::LoadU(d, at + 2 * stride), s2);
    s3 = hn::MulAdd(v, hn::LoadU(d, at + 3 * stride), s3);
    s4 = hn::MulAdd(v, hn::LoadU(d, at + 4 * stride), s4);
    s5 = hn::MulAdd(v, hn::LoadU(d, at + 5 * stride), s5);
    s6 = hn::MulAdd(v, hn::LoadU(d, at + 6 * stride), s6);
    s7 = hn::MulAdd(v, hn::LoadU(d, at + 7 * stride), s7);
  }
  float sums[8] = {hn::GetLane(hn::SumOfLanes(d, s0)), hn::GetLane(hn::SumOfLanes(d, s1)),
                   hn::GetLane(hn::SumOfLanes(d, s2)), hn::GetLane(hn::SumOfLanes(d, s3)),
                   hn::GetLane(hn::SumOfLanes(d, s4)), hn::GetLane(hn::SumOfLanes(d, s5)),
                   hn::GetLane(hn::SumOfLanes(d, s6)), hn::GetLane(hn::SumOfLanes(d, s7))};
  for (; i < n; ++i) {
    for (std::size_t r = 0; r < 8; ++r) sums[r] += x[i] * a[r * stride + i];
  }
  for (std::size_t r = 0; r < 8; ++r) h[r] += sums[r];
}

void shrink(const float* x, const float* a, std::size_t stride, std::size_t ranks, std::size_t n, float* h) {
  std::size_t r = 0;
  for (; r + 8 <= ranks; r += 8) shrink8(x, a + r * stride, stride, n, h + r);
  for (; r < ranks; ++r) h[r] += dot(x, a + r * stride, n);
}

// out = (add ? out : 0) + h^T a for eight rows of a.
HWY_INLINE void expand8(const float* h, const float* a, std::size_t stride, std::size_t n, bool add, float* out) {
  const float h0 = h[0], h1 = h[1], h2 = h[2], h3 = h[3], h4 = h[4], h5 = h[5], h6 = h[6], h7 = h[7];
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const float* at = a + i;
    auto sum = add ? hn::LoadU(d, out + i) : hn::Zero(d);
    sum = hn::MulAdd(hn::Set(d, h0), hn::LoadU(d, at), sum);
    sum = hn::MulAdd(hn::Set(d, h1), hn::LoadU(d, at + stride), sum);
    sum = hn::MulAdd(hn::Set(d, h2), hn::LoadU(d, at + 2 * stride), sum);
    sum = hn::MulAdd(hn::Set(d, h3), hn::LoadU(d, at + 3 * stride), sum);
    sum = hn::MulAdd(hn::Set(d, h4), hn::LoadU(d, at + 4 * stride), sum);
    sum = hn::MulAdd(hn::Set(d, h5), hn::LoadU(d, at + 5 * stride), sum);
    sum = hn::MulAdd(hn::Set(d, h6), hn::LoadU(d, at + 6 * stride), sum);
    hn::StoreU(hn::MulAdd(hn::Set(d, h7), hn::LoadU(d, at + 7 * stride), sum), d, out + i);
  });
}

void expand(const float* h, const float* a, std::size_t stride, std::size_t ranks, std::size_t n, float* out) {
  std::size_t r = 0;
  for (; r + 8 <= ranks; r += 8) expand8(h + r, a + r * stride, stride, n, r > 0, out);
  if (r == 0) std::memset(out, 0, n * sizeof(float));
  for (; r < ranks; ++r) axpby(h[r], a + r * stride, 1.0F, out, n, out);
}

void add_outer(const float* h, const float* x, std::size_t stride, std::size_t rows, std::size_t ranks, std::size_t n,
               float* out) {
  if (rows < 4) {
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t r = 0; r < ranks; ++r) {
        axpby(h[row * ranks + r], x + row * stride, 1.0F, out + r * stride, n, out + r * stride);
      }
    }
    return;
  }
  each(n, [=](auto d, std::size_t i) HWY_ATTR {
    const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + stride + i);
    const auto x2 = hn::LoadU(d, x + 2 * stride + i), x3 = hn::LoadU(d, x + 3 * stride + i);
    for (std::size_t r = 0; r < ranks; ++r) {
      float* to = out + r * stride + i;
      auto sum = hn::MulAdd(hn::Set(d, h[r]), x0, hn::LoadU(d, to));
      sum = hn::MulAdd(hn::Set(d, h[ranks + r]), x1, sum);
      sum = hn::MulAdd(hn::Set(d, h[2 * ranks + r]), x2, sum);
      hn::StoreU(hn::MulAdd(hn::Set(d, h[3 * ranks + r]), x3, sum), d, to);
    }
  });
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
    .shrink = shrink,
    .expand = expand,
    .add_outer = add_outer,
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
