// Keys and values in 8 bits, over a scale for each row of a head (ops/kv_write.h), as attention's kernels on the matrix
// units have them. They lie in shared memory as they come; a fragment's codes become numbers of the queries' 16 bits in
// registers, which all codes are exactly. Scores are multiplied by their keys' scales, weights by their values'.
//
// Four neighbouring codes are a word, of which the codes at even bytes and those at odd ones are taken apart: so a
// fragment has its columns in another order than memory. Queries are brought into that order too.
#pragma once

#include "backends/cuda/cu/attention_given.cuh"

// How codes become numbers of 16 bits, of which these are two each: the last bit of `whole` counts 1, and its last 8
// are 0; an e4m3 number's bits moved up by `shift` are its value over `power`. `narrow`: small numbers lose bits soon.
template <typename F>
struct CodeBits;
template <>
struct CodeBits<Bf16> {
  enum : uint { whole = 0x43004300, minus_one = 0xbf80bf80, power = 0x7b807b80, magnitude = 0x07f007f0 };
  enum : int { shift = 4, narrow = 0 };
};
template <>
struct CodeBits<F16x2> {
  enum : uint { whole = 0x64006400, minus_one = 0xbc00bc00, power = 0x5c005c00, magnitude = 0x3f803f80 };
  enum : int { shift = 7, narrow = 1 };
};

// a b + c of two numbers each.
template <typename F>
DEVICE uint fma_pair(uint a, uint b, uint c) {
#ifdef __CUDACC__
  uint d;
  if constexpr (CodeBits<F>::narrow != 0) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  }
  return d;
#else
  const auto of = [](uint pair, int i) { return F::widen(static_cast<ushort>(pair >> 16 * i)); };
  return F::pack(fmaf(of(a, 0), of(b, 0), of(c, 0)), fmaf(of(a, 1), of(b, 1), of(c, 1)));
#endif
}

// Codes at a word's even bytes or at its odd ones.
template <typename F, int code>
DEVICE uint even_codes(uint word) {
  using Bits = CodeBits<F>;
  if (code == I8) {  // of 8 bits the highest counts -128
    return fma_pair<F>(Bits::whole | (word & 0x00800080u), Bits::minus_one, Bits::whole | (word & 0x007f007fu));
  }
  return fma_pair<F>((word << Bits::shift & Bits::magnitude) | (word << 8 & 0x80008000u), Bits::power, 0x80008000u);
}
template <typename F, int code>
DEVICE uint odd_codes(uint word) {
  using Bits = CodeBits<F>;
  if (code == I8) return even_codes<F, code>(word >> 8);
  return fma_pair<F>((word >> (8 - Bits::shift) & Bits::magnitude) | (word & 0x80008000u), Bits::power, 0x80008000u);
}
// The same of four 16-bit elements.
DEVICE uint even_elements(uint low, uint high) { return (low & 0xffffu) | high << 16; }
DEVICE uint odd_elements(uint low, uint high) { return low >> 16 | (high & 0xffff0000u); }

// Where a key's rows begin, in 16 bytes, and their scales. What isn't read has scales of 0.
struct CodedRows {
  uint key, value;
  float key_scale, value_scale;
};

template <typename F, int code>
struct Coded {
  using Format = F;
  using Element = uchar;
  using Place = CodedRows;
  static constexpr int vector = 16, pad = 16;
  static constexpr int scales = 2;
  // Weights times scales may be small numbers. Where these lose bits, they and the sums are counted in a unit: the
  // power of two of the largest scale so far, over a number that keeps the largest weight below 2^15.
  static constexpr bool has_unit = CodeBits<F>::narrow != 0;
  static constexpr float parts = 16384.0f;
  float unit;

  template <typename Arguments>
  static DEVICE_MEMBER Place place_of_key(const KeyPlace& place, int j, const Span& span, const Arguments& a) {
    if (j < span.first || j >= span.last) return {kNowhere, kNowhere, 0.0f, 0.0f};
    return {static_cast<uint>(place.row(a.s.k, j) / 16), static_cast<uint>(place.row(a.s.v, j) / 16),
            a.k_scale.template as<float>()[place.row(a.s.k_scale, j)],
            a.v_scale.template as<float>()[place.row(a.s.v_scale, j)]};
  }
  // Of `keys` rows' scales, behind them: the keys', then the values'.
  static DEVICE_MEMBER void keep_scales(uchar* to, int keys, int j, const Place& place) {
    reinterpret_cast<float*>(to)[j] = place.key_scale;
    reinterpret_cast<float*>(to)[keys + j] = place.value_scale;
  }

  static DEVICE_MEMBER float scale_of(const Place& place, bool of_value) {
    return of_value ? place.value_scale : place.key_scale;
  }

  static DEVICE_MEMBER void query(const ushort* row, int step, int lane, int width, uint& low, uint& high) {
    const int d = step * 16 + lane % 4 * 4;
    const uint* const words = reinterpret_cast<const uint*>(row + d);
    const uint first = d < width ? words[0] : 0u, second = d < width ? words[1] : 0u;
    low = even_elements(first, second);
    high = odd_elements(first, second);
  }
  // A thread takes 16 neighbours at a time.
  template <int rows, int width, int threads>
  static DEVICE_MEMBER void arrange(ushort* queries) {
    copy_async_wait<0>();
    __syncthreads();
    for (int at = threadIdx.x; at < rows * (width / 16); at += threads) {
      uint* const words =
          reinterpret_cast<uint*>(queries + at / (width / 16) * (width + kRowPad) + at % (width / 16) * 16);
      uint even[4], odd[4];
      UNROLL for (int i = 0; i < 4; ++i) {
        even[i] = even_elements(words[2 * i], words[2 * i + 1]);
        odd[i] = odd_elements(words[2 * i], words[2 * i + 1]);
      }
      UNROLL for (int i = 0; i < 4; ++i) {
        words[i] = even[i];
        words[4 + i] = odd[i];
      }
    }
  }

  DEVICE_MEMBER void begin() { unit = 0.0f; }

  // A word of keys is of one key and 4 columns; four words are 16 keys and 32 columns.
  template <int D, int MT, int N, typename RowsOf, typename ScaleOf>
  static DEVICE_MEMBER void score(float (&scores)[MT][N / 8][4], const uchar* keys, int lane, RowsOf&& rows_of,
                                  ScaleOf&& scale_of) {
    constexpr int pitch = (D + pad) / 2;
    static_assert(D % 32 == 0);
    const ushort* const own = of_columns(reinterpret_cast<const ushort*>(keys), pitch, lane);
    UNROLL for (int two = 0; two < D / 32; ++two) {
      uint a[2][MT][4];
      UNROLL for (int m = 0; m < MT; ++m) {
        rows_of(a[0][m], m, 2 * two);
        rows_of(a[1][m], m, 2 * two + 1);
      }
      UNROLL for (int n = 0; n < N / 16; ++n) {
        uint words[4];
        ldmatrix_x4(words, own + n * 16 * pitch + two * 16);
        UNROLL for (int i = 0; i < 4; ++i) {
          const uint low = even_codes<F, code>(words[i]), high = odd_codes<F, code>(words[i]);
          UNROLL for (int m = 0; m < MT; ++m) F::mma(scores[m][2 * n + i / 2], a[i % 2][m], low, high);
        }
      }
    }
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 2; ++i) {
        const float scale = scale_of(n * 8 + lane % 4 * 2 + i, false);
        UNROLL for (int m = 0; m < MT; ++m) {
          scores[m][n][i] *= scale;
          scores[m][n][2 + i] *= scale;
        }
      }
    }
  }

  // Makes the unit that of the largest of `scale`, and the sums those in it.
  template <int MT, int N, int D>
  DEVICE_MEMBER void raise_unit(float (&sums)[MT][D][4], const float (&scale)[N][2]) {
    float most = 0.0f;
    UNROLL for (int n = 0; n < N; ++n) most = fmaxf(most, fmaxf(scale[n][0], scale[n][1]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float next = __uint_as_float(__float_as_uint(most) & 0x7f800000u);
    if (next <= unit) return;  // as all lanes find
    const float kept = unit * one_over(next);
    UNROLL for (int m = 0; m < MT; ++m) {
      UNROLL for (int d = 0; d < D; ++d) { UNROLL for (int i = 0; i < 4; ++i) sums[m][d][i] *= kept; }
    }
    unit = next;
  }
  // Of a power of two. Scales are normal numbers, and far below 2^127.
  static DEVICE_MEMBER float one_over(float power) { return __uint_as_float(0x7f000000u - __float_as_uint(power)); }

  template <int DV, int MT, int N, typename ScaleOf>
  DEVICE_MEMBER void add(float (&sums)[MT][DV / 8][4], float (&weights)[MT][N / 8][4], const uchar* values, int begin,
                         int lane, bool carefully, ScaleOf&& scale_of, const Rows& rows, const Tensor& mask,
                         const AttentionSizes& s) {
    float scale[N / 8][2];
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 2; ++i) scale[n][i] = scale_of(n * 8 + lane % 4 * 2 + i, true);
    }
    if constexpr (has_unit) raise_unit(sums, scale);
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) {
        const float its = has_unit ? scale[n][i % 2] * one_over(unit) * parts : scale[n][i % 2];
        UNROLL for (int m = 0; m < MT; ++m) weights[m][n][i] *= its;
        if (!carefully || is_finite(its)) continue;
        UNROLL for (int m = 0; m < MT; ++m) {
          const int e = m * 16 + i / 2 * 8 + lane / 4;
          const int j = begin + n * 8 + lane % 4 * 2 + i % 2;
          if (!sees(rows.spans[e], j, rows.row(e), mask, s)) weights[m][n][i] = 0.0f;
        }
      }
    }
    multiply<DV, MT, N>(sums, weights, values, lane);
  }
  // A word of values is of two keys and two columns, of which one is a column of one product, one of another's.
  template <int DV, int MT, int N>
  static DEVICE_MEMBER void multiply(float (&sums)[MT][DV / 8][4], const float (&weights)[MT][N / 8][4],
                                     const uchar* values, int lane) {
    constexpr int pitch = (DV + pad) / 2;
    static_assert(DV % 32 == 0);
    const ushort* const own = of_rows(reinterpret_cast<const ushort*>(values), pitch, lane);
    UNROLL for (int step = 0; step < N / 16; ++step) {
      uint a[MT][4];
      UNROLL for (int m = 0; m < MT; ++m) narrow<F>(a[m], weights[m], step);
      UNROLL for (int n = 0; n < DV / 16; n += 2) {
        uint words[4];
        ldmatrix_x4_trans(words, own + step * 16 * pitch + n * 8);
        UNROLL for (int side = 0; side < 2; ++side) {
          const uint low = words[2 * side], high = words[2 * side + 1];
          const uint even[2] = {even_codes<F, code>(low), even_codes<F, code>(high)};
          const uint odd[2] = {odd_codes<F, code>(low), odd_codes<F, code>(high)};
          UNROLL for (int m = 0; m < MT; ++m) {
            F::mma(sums[m][2 * (n + side)], a[m], even[0], even[1]);
            F::mma(sums[m][2 * (n + side) + 1], a[m], odd[0], odd[1]);
          }
        }
      }
    }
  }
  template <int MT, int N>
  DEVICE_MEMBER void end(float (&sums)[MT][N][4]) {
    if constexpr (has_unit) {
      UNROLL for (int m = 0; m < MT; ++m) {
        UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) sums[m][n][i] *= 1.0f / parts * unit; }
      }
    }
  }

  // Even columns and odd ones are of different products.
  template <int N>
  static DEVICE_MEMBER int pair_of(const float (&sums)[N][4], int n, int half, int lane, float& x, float& y) {
    x = sums[n / 2 * 2][2 * half + n % 2];
    y = sums[n / 2 * 2 + 1][2 * half + n % 2];
    return n / 2 * 16 + lane % 4 * 4 + n % 2 * 2;
  }
};

using Bf16OverI8 = Coded<Bf16, I8>;
using Bf16OverE4m3 = Coded<Bf16, F8_E4M3>;
using F16OverI8 = Coded<F16x2, I8>;
using F16OverE4m3 = Coded<F16x2, F8_E4M3>;
