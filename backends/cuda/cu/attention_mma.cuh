// What attention and its backward share on the matrix units: products of fragments (cu/tensor_cores.cuh) and the
// softmax that runs beside them. Rows in shared memory are `width` + kRowPad elements apart, so that ldmatrix meets no
// bank twice. A warp has 16 rows of MT tiles.
#pragma once

#include "backends/cuda/cu/attention.cuh"
#include "backends/cuda/cu/tensor_cores.cuh"

CONSTANT int kRowPad = 8;
CONSTANT float kLog2E = 1.4426950408889634f;

#ifdef __CUDACC__
// 2^x within 2 ulp; what isn't normal becomes 0.
DEVICE float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
DEVICE float fast_exp2(float x) { return exp2f(x); }
#endif

struct Bf16 {
  enum : uint { exponent = 0x7f80 };  // all ones: infinite or NaN
  static DEVICE_MEMBER void mma(float (&d)[4], const uint (&a)[4], uint low, uint high) {
    const uint b[2] = {low, high};
    mma_bf16(d, a, b);
  }
  static DEVICE_MEMBER uint pack(float low, float high) { return pack_bf16(low, high); }
  static DEVICE_MEMBER float widen(ushort bits) { return bf16_to_float(bits); }
};
struct F16x2 {
  enum : uint { exponent = 0x7c00 };
  static DEVICE_MEMBER void mma(float (&d)[4], const uint (&a)[4], uint low, uint high) {
    const uint b[2] = {low, high};
    mma_f16(d, a, b);
  }
  static DEVICE_MEMBER uint pack(float low, float high) { return pack_f16(low, high); }
  static DEVICE_MEMBER float widen(ushort bits) { return f16_to_float(bits); }
};

// Scores become exponents of 2 in this unit: score * of_two, and natural ones: score * natural.
struct Units {
  float of_two, natural;
};
DEVICE Units units_of(const AttentionSizes& s) {
  const float natural = s.softcap > 0.0f ? 1.0f : s.scale;
  return {natural * kLog2E, natural};
}

// The i-th vector of `size` elements that a thread of `threads` copies, of rows of `vectors`: which row's, and its first
// column. Where the threads are whole rows, all of a thread's vectors have the same column.
template <int vectors, int threads, int size = 8>
DEVICE void vector_of(uint thread, int i, int& row, int& column) {
  if (threads % vectors == 0) {
    row = static_cast<int>(thread / vectors) + i * (threads / vectors);
    column = static_cast<int>(thread % vectors * size);
  } else {
    const uint at = thread + i * threads;
    row = static_cast<int>(at / vectors);
    column = static_cast<int>(at % vectors * size);
  }
}

// `rows` rows of `width` elements into shared memory, beside the arithmetic; those from `count` on, and what is behind
// `there` elements, are 0. row_at gives where row i begins, in elements.
template <int rows, int width, int threads, typename RowAt>
DEVICE void copy_rows(ushort* to, const Tensor& from, int count, int there, RowAt&& row_at) {
  constexpr int vectors = width / 8;
  static_assert(rows * vectors % threads == 0);
  UNROLL for (int n = 0; n < rows * vectors / threads; ++n) {
    int i, d;
    vector_of<vectors, threads>(threadIdx.x, n, i, d);
    const bool valid = i < count && d < there;
    const ushort* const source = from.as<ushort>() + (valid ? row_at(i) + d : 0);
    copy_async(to + i * (width + kRowPad) + d, source, valid);
  }
}

// Where a key's rows begin, in 16 bytes; kNowhere: it isn't read.
struct KeyRows {
  uint key, value;
};
CONSTANT uint kNowhere = 0xffffffffu;
DEVICE KeyRows rows_of_key(const KeyPlace& place, int j, const Span& span, const AttentionSizes& s) {
  if (j < span.first || j >= span.last) return {kNowhere, kNowhere};
  return {static_cast<uint>(place.row(s.k, j) / 8), static_cast<uint>(place.row(s.v, j) / 8)};
}

// A fragment of 16 rows by 16 columns, of rows in shared memory.
DEVICE const ushort* of_rows(const ushort* rows, int pitch, int lane) {
  return rows + (lane / 8 % 2 * 8 + lane % 8) * pitch + lane / 16 * 8;
}
// Two fragments, of 8 turned rows each: with these as the columns of b.
DEVICE const ushort* of_columns(const ushort* rows, int pitch, int lane) {
  return rows + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8;
}

// products [16 MT, N] += the warp's rows by N turned rows of `others`, [N, D]. rows_of(a, m, step) gives the fragment
// of tile m and columns from 16 step on.
template <typename F, int D, int MT, int N, typename RowsOf>
DEVICE void multiply_turned(float (&products)[MT][N / 8][4], const ushort* others, int lane, RowsOf&& rows_of) {
  constexpr int pitch = D + kRowPad;
  const ushort* const own = of_columns(others, pitch, lane);
  UNROLL for (int step = 0; step < D / 16; ++step) {
    uint a[MT][4];
    UNROLL for (int m = 0; m < MT; ++m) rows_of(a[m], m, step);
    UNROLL for (int n = 0; n < N / 16; ++n) {
      uint b[4];
      ldmatrix_x4(b, own + n * 16 * pitch + step * 16);
      UNROLL for (int m = 0; m < MT; ++m) {
        F::mma(products[m][2 * n], a[m], b[0], b[1]);
        F::mma(products[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// The fragment of weights [16, 16] that two tiles of products are.
template <typename F, int N>
DEVICE void narrow(uint (&a)[4], const float (&weights)[N][4], int step) {
  a[0] = F::pack(weights[2 * step][0], weights[2 * step][1]);
  a[1] = F::pack(weights[2 * step][2], weights[2 * step][3]);
  a[2] = F::pack(weights[2 * step + 1][0], weights[2 * step + 1][1]);
  a[3] = F::pack(weights[2 * step + 1][2], weights[2 * step + 1][3]);
}

template <typename F>
DEVICE uint only_finite(uint pair) {
  const uint low = (pair & F::exponent) == F::exponent ? 0u : pair & 0xffffu;
  const uint high = (pair >> 16 & F::exponent) == F::exponent ? 0u : pair & 0xffff0000u;
  return low | high;
}

// sums [16 MT, D] += weights [16 MT, N] by rows of `values`, [N, D]; `finite`: what isn't counts as 0.
template <typename F, int D, int MT, int N, int pitch = D + kRowPad>
DEVICE void add_weighted(float (&sums)[MT][D / 8][4], const float (&weights)[MT][N / 8][4], const ushort* values,
                         int lane, bool finite = false) {
  const ushort* const own = of_rows(values, pitch, lane);
  UNROLL for (int step = 0; step < N / 16; ++step) {
    uint a[MT][4];
    UNROLL for (int m = 0; m < MT; ++m) narrow<F>(a[m], weights[m], step);
    UNROLL for (int n = 0; n < D / 16; ++n) {
      uint b[4];
      ldmatrix_x4_trans(b, own + step * 16 * pitch + n * 16);
      if (finite) {
        UNROLL for (int i = 0; i < 4; ++i) b[i] = only_finite<F>(b[i]);
      }
      UNROLL for (int m = 0; m < MT; ++m) {
        F::mma(sums[m][2 * n], a[m], b[0], b[1]);
        F::mma(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// The softmax that a warp carries: for each tile, of rows lane / 4 and + 8, the largest score and this lane's sum.
template <int MT>
struct Softmax {
  float peak[MT][2], sum[MT][2];
  DEVICE_MEMBER void clear() {
    UNROLL for (int m = 0; m < MT; ++m) {
      peak[m][0] = peak[m][1] = -infinity();
      sum[m][0] = sum[m][1] = 0.0f;
    }
  }
};

template <int MT, int N>
DEVICE void cap_scores(float (&scores)[MT][N][4], const AttentionSizes& s) {
  if (s.softcap <= 0.0f) return;
  const float factor = s.scale / s.softcap;
  UNROLL for (int m = 0; m < MT; ++m) {
    UNROLL for (int n = 0; n < N; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) scores[m][n][i] = s.softcap * tanhf(scores[m][n][i] * factor);
    }
  }
}

// Rows of the warp: which keys each sees beside the mask, and which of all query rows it is.
struct Rows {
  const Span* spans;
  int first_row, first_entry, group;  // of the warp's first row
  DEVICE_MEMBER long row(int e) const { return first_row + (first_entry + e) / group; }
};

// Scores of what a row doesn't see become -infinity. Keys begin at `begin`.
template <int MT, int N>
DEVICE void hide(float (&scores)[MT][N][4], int begin, int lane, const Rows& rows, const Tensor& mask,
                 const AttentionSizes& s) {
  UNROLL for (int m = 0; m < MT; ++m) {
    UNROLL for (int half = 0; half < 2; ++half) {
      const int e = m * 16 + half * 8 + lane / 4;
      const int own = begin + lane % 4 * 2;
      const int first = rows.spans[e].first - own, last = rows.spans[e].last - own;
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int i = 0; i < 2; ++i) {
          float& score = scores[m][n][2 * half + i];
          score = n * 8 + i >= first && n * 8 + i < last ? score : -infinity();
        }
      }
      if (s.has_mask == 0) continue;
      const uchar* const at = mask.at + rows.row(e) * s.mask[0] + own * s.mask[1];
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int i = 0; i < 2; ++i) {
          const int j = n * 8 + i;
          if (j >= first && j < last && at[j * s.mask[1]] == 0) scores[m][n][2 * half + i] = -infinity();
        }
      }
    }
  }
}

// Scores become weights beside the largest score so far; the sums of before shrink by as much as it grew.
template <int MT, int N, int D>
DEVICE void soften(float (&scores)[MT][N][4], Softmax<MT>& state, float (&sums)[MT][D][4], float of_two) {
  UNROLL for (int m = 0; m < MT; ++m) {
    UNROLL for (int half = 0; half < 2; ++half) {
      float now = state.peak[m][half];
      UNROLL for (int n = 0; n < N; ++n) {
        now = fmaxf(now, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      const float before = state.peak[m][half];
      const float kept = before == now ? 1.0f : fast_exp2((before - now) * of_two);
      const float shift = now == -infinity() ? 0.0f : -now * of_two;
      state.peak[m][half] = now;
      float sum = 0.0f;
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int i = 0; i < 2; ++i) {
          float& score = scores[m][n][2 * half + i];
          score = fast_exp2(fmaf(score, of_two, shift));
          sum += score;
        }
      }
      state.sum[m][half] = fmaf(state.sum[m][half], kept, sum);
      if (__any_sync(0xffffffffu, kept != 1.0f) == 0) continue;  // as from some tile on
      UNROLL for (int d = 0; d < D; ++d) {
        sums[m][d][2 * half] *= kept;
        sums[m][d][2 * half + 1] *= kept;
      }
    }
  }
}

// Infinite and NaN values, which add_weighted left out, go to the rows that see them. For tiles of which some rows
// don't see all, once a product came out of them that isn't finite: 0 by infinity is NaN.
template <typename F, int D, int MT>
DEVICE void add_not_finite(float (&sums)[MT][D / 8][4], const ushort* values, int begin, int count, int lane,
                           const Rows& rows, const Tensor& mask, const AttentionSizes& s) {
  UNROLL for (int n = 0; n < D / 8; ++n) {
    UNROLL for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < count; ++j) {
        const ushort bits = values[j * (D + kRowPad) + n * 8 + lane % 4 * 2 + i];
        if ((bits & F::exponent) != F::exponent) continue;
        UNROLL for (int m = 0; m < MT; ++m) {
          UNROLL for (int half = 0; half < 2; ++half) {
            const int e = m * 16 + half * 8 + lane / 4;
            if (sees(rows.spans[e], begin + j, rows.row(e), mask, s)) sums[m][n][2 * half + i] += F::widen(bits);
          }
        }
      }
    }
  }
}

template <int MT, int N>
DEVICE bool all_finite(const float (&sums)[MT][N][4]) {
  bool good = true;
  UNROLL for (int m = 0; m < MT; ++m) {
    UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) good = good && is_finite(sums[m][n][i]); }
  }
  return good;
}

// Two neighbours of a row, from an even element on.
struct alignas(8) Pair {
  float x, y;
};
DEVICE void put_pair(const Tensor& to, long at, long stride, float x, float y) {
  if (stride != 1 || at % 2 != 0) {
    put(to, at, x);
    put(to, at + stride, y);
  } else if (to.dtype == F32) {
    to.as<Pair>()[at / 2] = {x, y};
  } else {
    to.as<uint>()[at / 2] = to.dtype == BF16 ? pack_bf16(x, y) : pack_f16(x, y);
  }
}
