// Few rows in fp32 by weights that lie along, over the registers P of planes_*.cpp: a part of planes_inl.h.
#pragma once

#include <cstdint>

#include "backends/cpu/planes.h"
#include "base/nf4.h"

namespace tern::cpu {
namespace {

// kAlongStep elements of a row that lies along, as kAlongStep / W registers; of pairs the first of each, then the
// others.
template <typename P, tern_packing Packing, typename Levels>
TERN_INLINE void along(const std::uint8_t* codes, std::int64_t at, const Levels& levels, typename P::F* out) {
  if constexpr (Packing == TERN_PACK_ROW_INT8) {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kAlongStep; i += P::W) out[i / P::W] = P::from_i8(codes + at + i);
  }
  if constexpr (Packing == TERN_PACK_F8_BLOCK) P::step_of_f8(codes + at, out);
  if constexpr (Packing == TERN_PACK_NF4) P::step_of_levels4(levels, codes + at / 2, out);
}

// An output by M rows: a register of the weight is expanded once for all. Sums of one row are two, as they'd wait for
// each other.
template <typename P, tern_packing Packing, int M>
void along_output(const QuantisedRows& w, const float* scales, std::int64_t output, const FewRows& x, float* y,
                  std::int64_t ld) {
  using F = typename P::F;
  constexpr int kChains = M == 1 ? 2 : 1;
  const std::uint8_t* codes = w.bytes(output, 0, w.k).at;
  const auto levels = P::levels(levels4(w.scheme.packing).data());
  F acc[kChains][M] = {};
  for (std::int64_t k = 0; k < w.k; k += kAlongStep) {
    constexpr std::int64_t kAhead = 2048;  // bytes: an output is too short for the processor to read on by itself
    __builtin_prefetch(codes + (Packing == TERN_PACK_NF4 ? k / 2 : k) + kAhead);
    const float scale = scales[k / kAlongStep];
    F step[kAlongStep / P::W];
    along<P, Packing>(codes, k, levels, step);
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kAlongStep; i += P::W) {
      const F part = step[i / P::W] * scale;
#pragma GCC unroll 16
      for (int r = 0; r < M; ++r) {
        F& sum = acc[i / P::W % kChains][r];
        sum = P::add_product(sum, part, loaded<F>(x.x + r * x.ld + k + i));
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r) {
    if constexpr (kChains == 2) acc[0][r] += acc[1][r];
    y[r * ld] = P::total(acc[0][r]);
  }
}

template <typename P, tern_packing Packing>
void along_outputs(const QuantisedRows& w, const float* scales, std::int64_t column, std::int64_t n, const FewRows& x,
                   float* y, std::int64_t ld) {
  const auto each = [&]<int M>(int first) {
    const FewRows some{x.x + first * x.ld, x.ld, M};
    for (std::int64_t c = 0; c < n; ++c) {
      along_output<P, Packing, M>(w, scales + c * (w.k / kAlongStep), column + c, some, y + first * ld + c, ld);
    }
  };
  int first = 0;
  for (; x.rows - first >= 8; first += 8) each.template operator()<8>(first);
  for (; x.rows - first >= 4; first += 4) each.template operator()<4>(first);
  for (; x.rows - first >= 2; first += 2) each.template operator()<2>(first);
  if (x.rows > first) each.template operator()<1>(first);
}

template <typename P>
void planes_multiply_along(const QuantisedRows& w, const float* scales, std::int64_t column, std::int64_t n,
                           const FewRows& x, float* y, std::int64_t ld) {
  switch (w.scheme.packing) {
    case TERN_PACK_ROW_INT8:
      return along_outputs<P, TERN_PACK_ROW_INT8>(w, scales, column, n, x, y, ld);
    case TERN_PACK_F8_BLOCK:
      return along_outputs<P, TERN_PACK_F8_BLOCK>(w, scales, column, n, x, y, ld);
    default:
      return along_outputs<P, TERN_PACK_NF4>(w, scales, column, n, x, y, ld);
  }
}

}  // namespace
}  // namespace tern::cpu
