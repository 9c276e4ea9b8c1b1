// How attention's kernels on the matrix units have keys and values: Given, in the 16 bits of the queries' dtype, or
// Coded (cu/attention_codes.cuh), in 8 bits. Both have the same members.
#pragma once

#include "backends/cuda/cu/attention_mma.cuh"

template <typename F>
struct Given {
  using Format = F;
  using Element = ushort;
  using Place = KeyRows;  // of a key and its value
  static constexpr int vector = 8, pad = kRowPad;  // elements of 16 bytes, and behind a row in shared memory
  static constexpr int scales = 0;                 // of a key and its value

  template <typename Arguments>
  static DEVICE_MEMBER Place place_of_key(const KeyPlace& place, int j, const Span& span, const Arguments& a) {
    return rows_of_key(place, j, span, a.s);
  }
  static DEVICE_MEMBER void keep_scales(Element* /*to*/, int /*keys*/, int /*j*/, const Place& /*place*/) {}

  static DEVICE_MEMBER float scale_of(const Place& /*place*/, bool /*of_value*/) { return 1.0f; }

  // A lane's queries of a row from column 16 step on: those of a fragment's low columns and of its high ones.
  static DEVICE_MEMBER void query(const ushort* row, int step, int lane, int width, uint& low, uint& high) {
    const int d = step * 16 + lane % 4 * 2;
    low = d < width ? *reinterpret_cast<const uint*>(row + d) : 0u;
    high = d + 8 < width ? *reinterpret_cast<const uint*>(row + d + 8) : 0u;
  }
  // What rows of queries become in shared memory.
  template <int rows, int width, int threads>
  static DEVICE_MEMBER void arrange(ushort* /*queries*/) {}

  DEVICE_MEMBER void begin() {}
  template <int D, int MT, int N, typename RowsOf, typename ScaleOf>
  static DEVICE_MEMBER void score(float (&scores)[MT][N / 8][4], const ushort* keys, int lane, RowsOf&& rows_of,
                                  ScaleOf&& /*scale_of*/) {
    multiply_turned<F, D, MT, N>(scores, keys, lane, rows_of);
  }
  // `carefully`: what a row doesn't see may be infinite or NaN.
  template <int DV, int MT, int N, typename ScaleOf>
  DEVICE_MEMBER void add(float (&sums)[MT][DV / 8][4], float (&weights)[MT][N / 8][4], const ushort* values, int begin,
                         int lane, bool carefully, ScaleOf&& /*scale_of*/, const Rows& rows, const Tensor& mask,
                         const AttentionSizes& s) {
    add_weighted<F, DV, MT, N>(sums, weights, values, lane, carefully);
    if (carefully) add_not_finite<F, DV, MT>(sums, values, begin, N, lane, rows, mask, s);
  }
  template <int MT, int N>
  DEVICE_MEMBER void end(float (&/*sums*/)[MT][N][4]) {}

  // Two neighbours among a lane's sums, and the first one's column.
  template <int N>
  static DEVICE_MEMBER int pair_of(const float (&sums)[N][4], int n, int half, int lane, float& x, float& y) {
    x = sums[n][2 * half];
    y = sums[n][2 * half + 1];
    return n * 8 + lane % 4 * 2;
  }
};
