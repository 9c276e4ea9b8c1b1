// The loops of attention_kernels.h over the vectors of vec_*.h: included after them, in a target
// region (target_region.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/attention_direct_inl.h"
#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/cache_codes_inl.h"
#include "backends/cpu/vec_math.h"

namespace tern::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// z of a vector of scores.
template <typename V>
typename V::F logits_of(typename V::F s, Logits l) {
  const typename V::F z = V::mul(s, V::set1(l.scale));
  if (l.softcap <= 0) return z;
  return V::mul(V::set1(l.softcap), vtanh<V>(V::div(z, V::set1(l.softcap))));
}

template <typename V>
void softmax_any(float* s, std::int64_t width, std::int64_t lo, std::int64_t hi, Logits logits, float* max,
                 float* sum) {
  using F = typename V::F;
  constexpr int W = V::width;
  *max = kNothing;
  *sum = 0;
  if (lo >= hi) {
    std::fill_n(s, width, 0.0F);
    return;
  }
  std::fill_n(s, lo, kNothing);
  std::fill(s + hi, s + width, kNothing);
  const std::int64_t first = lo / W * W;
  const std::int64_t last = (hi + W - 1) / W * W;  // <= width rounded up: s is padded to whole vectors
  F most = V::set1(kNothing);
  for (std::int64_t i = first; i < last; i += W) {
    F z = logits_of<V>(V::load(s + i), logits);
    if (i < lo || i + W > hi) {  // masked lanes went through scale and tanh
      V::store(s + i, z);
      for (std::int64_t j = i; j < i + W; ++j) s[j] = j < lo || j >= hi ? kNothing : s[j];
      z = V::load(s + i);
    }
    V::store(s + i, z);
    most = V::max(most, z);
  }
  *max = V::largest(most);
  const F shift = V::set1(*max == kNothing ? 0.0F : *max);
  F total = V::zero();
  std::fill_n(s, first, 0.0F);
  for (std::int64_t i = first; i < last; i += W) {
    const F p = vexp<V>(V::sub(V::load(s + i), shift));
    V::store(s + i, p);
    total = V::add(total, p);
  }
  std::fill(s + std::min(last, width), s + width, 0.0F);
  *sum = V::sum(total);
}

template <typename V>
void merge_any(std::int64_t rows, std::int64_t width, std::int64_t ld, const float* block_max, const float* block_sum,
               const float* block_out, float* max, float* sum, float* out) {
  using F = typename V::F;
  constexpr int W = V::width;
  for (std::int64_t r = 0; r < rows; ++r, block_out += ld, out += ld) {
    if (block_sum[r] == 0 && block_max[r] == kNothing) continue;  // the row sees nothing of this block
    if (sum[r] == 0 && max[r] == kNothing) {                      // it saw nothing of those before it
      sum[r] = block_sum[r];
      max[r] = block_max[r];
      std::copy_n(block_out, width, out);
      continue;
    }
    const float both = std::max(max[r], block_max[r]);
    float factors[2 * W] = {max[r] - both, block_max[r] - both};
    V::store(factors, vexp<V>(V::load(factors)));
    const F old_factor = V::set1(factors[0]), new_factor = V::set1(factors[1]);
    sum[r] = sum[r] * factors[0] + block_sum[r] * factors[1];
    max[r] = both;
    for (std::int64_t i = 0; i < width; i += W) {  // rows of ld floats are whole vectors
      V::store(out + i, V::fma(V::load(block_out + i), new_factor, V::mul(V::load(out + i), old_factor)));
    }
  }
}

template <typename V>
void softmax_backward_any(float* s, float* dp, std::int64_t width, std::int64_t lo, std::int64_t hi, Logits logits,
                          float lse, float delta) {
  using F = typename V::F;
  constexpr int W = V::width;
  if (lo >= hi || lse == kNothing) {
    std::fill_n(s, width, 0.0F);
    std::fill_n(dp, width, 0.0F);
    return;
  }
  const std::int64_t first = lo / W * W;
  const std::int64_t last = (hi + W - 1) / W * W;
  const F shift = V::set1(lse), minus = V::set1(delta), scale = V::set1(logits.scale);
  for (std::int64_t i = first; i < last; i += W) {
    F z = V::mul(V::load(s + i), scale);
    F slope = scale;
    if (logits.softcap > 0) {
      const F t = vtanh<V>(V::div(z, V::set1(logits.softcap)));
      z = V::mul(V::set1(logits.softcap), t);
      slope = V::mul(scale, V::sub(V::set1(1.0F), V::mul(t, t)));
    }
    const F p = vexp<V>(V::sub(z, shift));
    V::store(s + i, p);
    V::store(dp + i, V::mul(V::mul(p, V::sub(V::load(dp + i), minus)), slope));
  }
  for (float* row : {s, dp}) {
    std::fill_n(row, lo, 0.0F);
    std::fill(row + hi, row + width, 0.0F);
  }
}

template <typename V>
float dot_any(const float* x, const float* y, std::int64_t n) {
  constexpr int W = V::width;
  typename V::F total = V::zero();
  std::int64_t i = 0;
  for (; i + W <= n; i += W) total = V::fma(V::load(x + i), V::load(y + i), total);
  if (i < n) {
    total = V::fma(V::load_part(x + i, static_cast<int>(n - i)), V::load_part(y + i, static_cast<int>(n - i)), total);
  }
  return V::sum(total);
}

template <typename V>
void scale_any(float* x, float factor, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store(x + i, V::mul(V::load(x + i), V::set1(factor)));
  for (; i < n; ++i) x[i] *= factor;
}

template <typename V>
bool finite_any(const float* x, std::int64_t n) {
  constexpr int W = V::width;
  typename V::F total = V::zero();  // stays 0 unless some x is infinite or NaN
  std::int64_t i = 0;
  for (; i + W <= n; i += W) total = V::fma(V::load(x + i), V::zero(), total);
  if (i < n) total = V::fma(V::load_part(x + i, static_cast<int>(n - i)), V::zero(), total);
  return V::sum(total) == 0;
}

template <typename V>
void softcap_any(const float* x, std::int64_t n, float softcap, float* out) {
  constexpr int W = V::width;
  const Logits logits{1.0F, softcap};
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store(out + i, logits_of<V>(V::load(x + i), logits));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    V::store_part(out + i, logits_of<V>(V::load_part(x + i, rest), logits), rest);
  }
}

template <typename V>
void logits_row_any(float* z, std::int64_t n, float softcap, float* max, float* sum) {
  using F = typename V::F;
  constexpr int W = V::width;
  const std::int64_t whole = n - n % W;
  const int rest = static_cast<int>(n - whole);
  const Logits logits{1.0F, softcap};
  float edge[W];
  std::fill_n(edge, W, kNothing);
  if (rest > 0) {
    V::store_part(z + whole, logits_of<V>(V::load_part(z + whole, rest), logits), rest);
    std::copy_n(z + whole, rest, edge);
  }
  F most = V::load(edge);
  for (std::int64_t i = 0; i < whole; i += W) {
    const F x = logits_of<V>(V::load(z + i), logits);
    if (softcap > 0) V::store(z + i, x);
    most = V::max(most, x);
  }
  *max = V::largest(most);
  const F shift = V::set1(*max == kNothing ? 0.0F : *max);
  F total = vexp<V>(V::sub(V::load(edge), shift));
  for (std::int64_t i = 0; i < whole; i += W) total = V::add(total, vexp<V>(V::sub(V::load(z + i), shift)));
  *sum = V::sum(total);
  if (*sum != *sum) {  // max drops NaN
    for (std::int64_t i = 0; i < n; ++i) {
      if (z[i] != z[i]) *max = z[i];
    }
  }
}

template <typename V>
void logits_gradient_any(float* z, std::int64_t n, float softcap, float max, float inverse_sum, float weight) {
  using F = typename V::F;
  constexpr int W = V::width;
  const F shift = V::set1(max), factor = V::set1(inverse_sum * weight);
  const auto gradient = [&](F x) {
    const F p = V::mul(vexp<V>(V::sub(x, shift)), factor);
    if (softcap <= 0) return p;
    const F t = V::div(x, V::set1(softcap));
    return V::mul(p, V::sub(V::set1(1.0F), V::mul(t, t)));
  };
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store(z + i, gradient(V::load(z + i)));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    V::store_part(z + i, gradient(V::load_part(z + i, rest)), rest);
  }
}

template <typename V>
constexpr RowKernels make_row_kernels() {
  return {&scores_any<V>,  &weigh_any<V>,  &softmax_any<V>,     &merge_any<V>,      &softmax_backward_any<V>,
          &dot_any<V>,     &scale_any<V>,  &finite_any<V>,      &softcap_any<V>,    &mul_any<V>,
          &largest_any<V>, &encode_any<V>, &widen_codes_any<V>, &logits_row_any<V>, &logits_gradient_any<V>};
}

}  // namespace
}  // namespace tern::cpu
