// Expanding quantised weights: 16 neighbours of a row, each rounded once to fp32. The meaning of each packing is that
// of ops/ref/packing.h. Columns are a multiple of 16, planes begin at multiples of 8 bytes.
#pragma once

#include "backends/cuda/cu/common.cuh"

// Numbers of tern_packing.
enum Packing {
  PACK_NONE = 0, Q4_0, Q4_1, Q8_0, Q5_0, Q5_1, Q4_K, Q6_K, Q2_K, Q3_K, Q5_K, IQ4_NL, IQ4_XS, MXFP4,
  ROW_INT8 = 16, AWQ_INT4, GPTQ_INT4, F8_BLOCK, NF4, FP4 = 22
};
// X(packing) for each that is expanded here; kernels' names end in it.
#define EACH_PACKING_OF_BLOCKS(X) \
  X(Q4_0) X(Q4_1) X(Q8_0) X(Q5_0) X(Q5_1) X(Q4_K) X(Q6_K) X(Q2_K) X(Q3_K) X(Q5_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)
#define EACH_PACKING_OF_PLANES(X) X(ROW_INT8) X(AWQ_INT4) X(GPTQ_INT4) X(F8_BLOCK) X(NF4) X(FP4)

// A weight [rows, columns] where it lies: PackedWeight of weight.h.
struct Weight {
  const uchar* data;
  const uchar* scales;
  const uchar* zeros;  // or the levels of quantised scales
  const int* order;
  long rows, columns;  // of the whole weight
  long group_rows, group_cols;
  int scale_type;   // dtype
  int bits;         // of a code
  int less;         // 1: zero points are stored less one
  int has_order;    // 1: a plane tells which row of the others is input i
  int twice;        // 1: scales are quantised themselves
  int group_shift;  // group_cols as a power of two; -1: it's none
};

DEVICE float scale_at(const Weight& w, long i) { return load_float(w.scale_type, w.scales, i); }
// Which group of columns, or of all elements, has one.
DEVICE long group_of(const Weight& w, long at) {
  if (at < w.group_cols) return 0;
  return w.group_shift >= 0 ? at >> w.group_shift : at / w.group_cols;
}
DEVICE long groups_of(const Weight& w) {
  return w.group_cols >= w.columns ? 1 : (w.columns + w.group_cols - 1) / w.group_cols;
}

// ---------------------------------------------------------------- bytes
DEVICE uint u16_at(const uchar* p) { return *reinterpret_cast<const ushort*>(p); }
DEVICE uint u32_at(const uchar* p) { return *reinterpret_cast<const uint*>(p); }

struct alignas(8) Two {
  uint w[2];
};
// 16 bytes from an address that is a multiple of `alignment`. Words of which they have a part are read whole where the
// weight has all of it: before them, but not beyond.
template <int alignment>
DEVICE void load_bytes(const uchar* p, uint (&q)[4]) {
  if constexpr (alignment == 8) {
    const Two low = *reinterpret_cast<const Two*>(p), high = *reinterpret_cast<const Two*>(p + 8);
    q[0] = low.w[0], q[1] = low.w[1], q[2] = high.w[0], q[3] = high.w[1];
  } else if constexpr (alignment == 4) {
    UNROLL for (int i = 0; i < 4; ++i) q[i] = u32_at(p + 4 * i);
  } else {
    const uint apart = static_cast<uint>(reinterpret_cast<unsigned long long>(p)) & 3u;
    const uchar* words = p - apart;
    UNROLL for (int i = 0; i < 4; ++i) q[i] = u32_at(words + 4 * i);
    uint last = 0;  // what the word after these has of the 16
    if constexpr (alignment == 2) {
      last = u16_at(p + 14);
    } else {
      for (uint i = 0; i < apart; ++i) last |= static_cast<uint>(words[16 + i]) << (8 * i);
    }
    UNROLL for (int i = 0; i < 4; ++i) q[i] = __funnelshift_r(q[i], i < 3 ? q[i + 1] : last, 8 * apart);
  }
}
// The lowest four bits, each in a byte of its own.
DEVICE uint spread_4(uint bits) { return ((bits & 15u) * 0x00204081u) & 0x01010101u; }
// Codes of 0 to 15 in bytes become entries of a table of 16 bytes.
DEVICE uint look_up_4(uint codes, uint t0, uint t1, uint t2, uint t3) {
  const uint pairs = codes | codes >> 4;
  const uint selectors = __byte_perm(pairs, 0u, 0x4420u);
  const uint low = __byte_perm(t0, t1, selectors & 0x7777u), high = __byte_perm(t2, t3, selectors & 0x7777u);
  return __byte_perm(low, high, 0x3210u | (selectors & 0x8888u) >> 1);
}
// A byte of a word, less a whole number, by the bits of 2^23 + byte.
DEVICE float byte_less(uint word, int byte, float less) {
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u | static_cast<uint>(byte))) - (8388608.0f + less);
}

// ---------------------------------------------------------------- units of 32
// Elements that share bytes, 16 and 16 neighbours: what a lane of the products takes at a time. A row's units are
// counted from its beginning; a block is one or 8.
template <int packing>
DEVICE constexpr int block_bytes() {
  constexpr int bytes[] = {0, 18, 20, 34, 22, 24, 144, 210, 84, 110, 176, 18, 136, 17};
  return packing <= MXFP4 ? bytes[packing] : 0;
}
template <int packing>
DEVICE constexpr int units_of_block() {
  return (packing >= Q4_K && packing <= Q5_K) || packing == IQ4_XS ? 8 : 1;
}
template <int packing>
DEVICE constexpr bool is_of_blocks() {
  return packing <= MXFP4;
}

// Where the half `h` of a unit begins in its row, and the other way around.
template <int packing>
DEVICE int column_of(int unit, int h) {
  if constexpr (packing == Q6_K) return unit / 4 * 128 + h * 64 + unit % 4 * 16;
  if constexpr (packing >= Q4_K && packing <= Q5_K) return unit / 2 * 64 + h * 32 + unit % 2 * 16;
  return unit * 32 + h * 16;
}
template <int packing>
DEVICE int unit_of(int column) {
  if constexpr (packing == Q6_K) return column / 128 * 4 + column % 64 / 16;
  if constexpr (packing >= Q4_K && packing <= Q5_K) return column / 64 * 2 + column / 16 % 2;
  return column / 32;
}
template <int packing>
DEVICE int half_of(int column) {
  if constexpr (packing == Q6_K) return column / 64 % 2;
  if constexpr (packing >= Q4_K && packing <= Q5_K) return column / 32 % 2;
  return column / 16 % 2;
}

// The bytes of a unit: codes, what else there is of each code, and what's beside them.
struct RawUnit {
  uint codes[4], extra[4], head[4];
};
// What 16 elements are made of: scale (code - less_of) + minimum.
struct Parts {
  uint codes[4];  // 16 bytes
  float scale, minimum;
};

template <int packing>
DEVICE constexpr bool has_minimum() {
  return packing == Q4_1 || packing == Q5_1 || packing == Q2_K || packing == Q4_K || packing == Q5_K;
}
template <int packing>
DEVICE constexpr float less_of() {
  if (packing == Q8_0 || packing == ROW_INT8 || packing == IQ4_NL || packing == IQ4_XS) return 128.0f;
  if (packing == Q6_K) return 32.0f;
  if (packing == Q5_0) return 16.0f;
  if (packing == MXFP4) return 12.0f;
  if (packing == Q4_0) return 8.0f;
  return packing == Q3_K ? 4.0f : 0.0f;
}
// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, plus 128.
DEVICE uint level_iq4(uint codes) { return look_up_4(codes, 0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u); }
// Twice the numbers of E2M1: 0 1 2 3 4 6 8 12, then the same below 0; plus 12.
DEVICE uint level_e2m1(uint codes) { return look_up_4(codes, 0x0f0e0d0cu, 0x18141210u, 0x090a0b0cu, 0x00040608u); }

// The 6 bits of the scale of 16 elements of Q3_K.
DEVICE uint scale_q3(const uchar* b, int sixteen) {
  return (b[96 + sixteen % 8] >> (sixteen / 8 * 4) & 15u) | (b[104 + sixteen % 4] >> (sixteen / 4 * 2) & 3u) << 4;
}

// Unit u of the block that begins at b.
template <int packing>
DEVICE void load_unit(const uchar* b, int u, RawUnit& raw) {
  const int half = u / 4, v = u % 4;
  if constexpr (packing == Q4_0 || packing == IQ4_NL || packing == Q8_0) {
    raw.head[0] = u16_at(b);
    load_bytes<2>(b + 2, raw.codes);
    if constexpr (packing == Q8_0) load_bytes<2>(b + 18, raw.extra);  // the second half
  } else if constexpr (packing == Q4_1) {
    raw.head[0] = u32_at(b);
    load_bytes<4>(b + 4, raw.codes);
  } else if constexpr (packing == Q5_0) {
    raw.head[0] = u16_at(b);
    raw.head[1] = u16_at(b + 2) | u16_at(b + 4) << 16;
    load_bytes<2>(b + 6, raw.codes);
  } else if constexpr (packing == Q5_1) {
    raw.head[0] = u32_at(b);
    raw.head[1] = u32_at(b + 4);
    load_bytes<8>(b + 8, raw.codes);
  } else if constexpr (packing == MXFP4) {
    raw.head[0] = b[0];
    load_bytes<1>(b + 1, raw.codes);
  } else if constexpr (packing == Q2_K) {
    const uchar* pairs = b + 8 * half + v / 2 * 4 + v % 2;
    raw.head[0] = u32_at(b + 80);
    raw.head[1] = pairs[0] | static_cast<uint>(pairs[2]) << 8;
    load_bytes<4>(b + 16 + half * 32 + v % 2 * 16, raw.codes);
  } else if constexpr (packing == Q3_K) {
    const int sixteen = 8 * half + v / 2 * 4 + v % 2;
    raw.head[0] = u16_at(b + 108);
    raw.head[1] = scale_q3(b, sixteen) | scale_q3(b, sixteen + 2) << 8;
    load_bytes<2>(b + 32 + half * 32 + v % 2 * 16, raw.codes);
    load_bytes<2>(b + v % 2 * 16, raw.extra);
  } else if constexpr (packing == Q4_K || packing == Q5_K) {
    load_bytes<8>(b, raw.head);
    load_bytes<8>(b + (packing == Q5_K ? 48 : 16) + u * 16, raw.codes);
    if constexpr (packing == Q5_K) load_bytes<8>(b + 16 + u % 2 * 16, raw.extra);
  } else if constexpr (packing == Q6_K) {
    const uchar* scales = b + 192 + 8 * half + v;
    raw.head[0] = u16_at(b + 208);
    raw.head[1] = scales[0] | static_cast<uint>(scales[4]) << 8;
    load_bytes<2>(b + half * 64 + v * 16, raw.codes);
    load_bytes<2>(b + 128 + half * 32 + v % 2 * 16, raw.extra);
  } else if constexpr (packing == IQ4_XS) {
    const Two head = *reinterpret_cast<const Two*>(b);
    raw.head[0] = head.w[0], raw.head[1] = head.w[1];
    load_bytes<8>(b + 8 + u * 16, raw.codes);
  }
}

DEVICE float low_half(uint word) { return f16_to_float(static_cast<ushort>(word)); }
DEVICE float high_half(uint word) { return f16_to_float(static_cast<ushort>(word >> 16)); }

template <int packing>
DEVICE constexpr bool has_nibbles() {
  return packing != Q8_0 && packing != Q2_K && packing != Q3_K;
}

// Bits that aren't beside their codes.
template <int packing>
DEVICE void add_bits(const RawUnit& raw, int u, int h, Parts& parts) {
  const int half = u / 4, v = u % 4;
  UNROLL for (int i = 0; i < 4; ++i) {
    if constexpr (packing == Q5_0 || packing == Q5_1) {
      parts.codes[i] |= spread_4(raw.head[1] >> (16 * h + 4 * i)) << 4;
    } else if constexpr (packing == Q5_K) {
      parts.codes[i] |= ((raw.extra[i] >> (u / 2 * 2 + h)) & 0x01010101u) << 4;
    } else if constexpr (packing == Q6_K) {
      parts.codes[i] |= ((raw.extra[i] >> (4 * h + v / 2 * 2)) & 0x03030303u) << 4;
    } else if constexpr (packing == Q3_K) {
      parts.codes[i] |= ((raw.extra[i] >> (4 * half + v / 2 * 2 + h)) & 0x01010101u) << 2;
    } else if constexpr (packing == IQ4_NL || packing == IQ4_XS) {
      parts.codes[i] = level_iq4(parts.codes[i]);
    } else if constexpr (packing == MXFP4) {
      parts.codes[i] = level_e2m1(parts.codes[i]);
    }
  }
}

// The half h of unit u of a block.
template <int packing>
DEVICE Parts parts_of_unit(const RawUnit& raw, int u, int h) {
  Parts parts;
  UNROLL for (int i = 0; i < 4; ++i) {
    if constexpr (packing == Q8_0 || packing == ROW_INT8) {
      parts.codes[i] = (h == 0 ? raw.codes[i] : raw.extra[i]) ^ 0x80808080u;
    } else if constexpr (has_nibbles<packing>()) {
      parts.codes[i] = (raw.codes[i] >> (4 * h)) & 0x0f0f0f0fu;
    } else {
      parts.codes[i] = (raw.codes[i] >> (u % 4 / 2 * 4 + 2 * h)) & 0x03030303u;
    }
  }
  add_bits<packing>(raw, u, h, parts);
  parts.scale = packing == ROW_INT8 ? __uint_as_float(raw.head[h]) : low_half(raw.head[0]);
  parts.minimum = 0.0f;
  const uint own = (raw.head[1] >> (8 * h)) & 255u;  // of the packings that have a scale for 16
  if constexpr (packing == Q4_1 || packing == Q5_1) {
    parts.minimum = high_half(raw.head[0]);
  } else if constexpr (packing == Q2_K) {
    parts.scale *= static_cast<float>(own & 15u);
    parts.minimum = -high_half(raw.head[0]) * static_cast<float>(own >> 4);
  } else if constexpr (packing == Q3_K) {
    parts.scale *= static_cast<float>(static_cast<int>(own) - 32);
  } else if constexpr (packing == Q6_K) {
    parts.scale *= static_cast<float>(static_cast<signed char>(own));
  } else if constexpr (packing == Q4_K || packing == Q5_K) {
    const int shift = (u / 2 * 2 + h) % 4 * 8;  // 8 scales and minima, 6 bits each, in 12 bytes
    const uint a = raw.head[1] >> shift, b = raw.head[2] >> shift, c = raw.head[3] >> shift;
    const uint scale = u < 4 ? a & 63u : (c & 15u) | (a >> 2 & 48u);
    const uint minimum = u < 4 ? b & 63u : (c >> 4 & 15u) | (b >> 2 & 48u);
    parts.scale *= static_cast<float>(scale);
    parts.minimum = -high_half(raw.head[0]) * static_cast<float>(minimum);
  } else if constexpr (packing == IQ4_XS) {
    const uint scale = (raw.head[1] >> (4 * u) & 15u) | (raw.head[0] >> (16 + 2 * u) & 3u) << 4;
    parts.scale *= static_cast<float>(static_cast<int>(scale) - 32);
  } else if constexpr (packing == MXFP4) {  // half of 2^(e - 127), as the codes are doubled
    const uint e = raw.head[0];
    parts.scale = __uint_as_float(e > 1 ? (e - 1) << 23 : 0x200000u << e);
  }
  return parts;
}

// Each rounded once: scale * code is exact where there's a minimum.
template <int packing>
DEVICE void values_of(const Parts& parts, float (&values)[16]) {
  UNROLL for (int i = 0; i < 16; ++i) {
    const float code = byte_less(parts.codes[i / 4], i % 4, less_of<packing>());
    values[i] = has_minimum<packing>() ? fmaf(parts.scale, code, parts.minimum) : parts.scale * code;
  }
}

// The block of a unit of a row.
template <int packing>
DEVICE const uchar* block_at(const Weight& w, long row, int unit) {
  constexpr int units = units_of_block<packing>();
  const long before = row * (static_cast<uint>(w.columns) / (32 * units)) + unit / units;
  return w.data + before * block_bytes<packing>();
}

// ---------------------------------------------------------------- the others
// An E4M3 is a half precision number divided by 2^8 when its bits are shifted there, tiny ones included.
DEVICE float e4m3_to_float(uint code) {
  const uint size = code & 0x7fu;
  const float value = f16_to_float(static_cast<ushort>(size << 7 | (code & 0x80u) << 8)) * 256.0f;
  return size == 0x7fu ? __uint_as_float(0x7fc00000u) : value;
}

CONSTANT float level_nf4[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
    -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
    0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
CONSTANT float level_fp4[16] = {
    0.0f, 0.0625f / 12.0f, 8.0f / 12.0f, 1.0f, 4.0f / 12.0f, 6.0f / 12.0f, 2.0f / 12.0f, 3.0f / 12.0f,
    0.0f, -0.0625f / 12.0f, -8.0f / 12.0f, -1.0f, -4.0f / 12.0f, -6.0f / 12.0f, -2.0f / 12.0f, -3.0f / 12.0f};

// The scale of NF4 and FP4 that the element `at` of all has.
DEVICE float scale_of_level(const Weight& w, long at) {
  const long group = group_of(w, at);
  if (w.twice == 0) return reinterpret_cast<const float*>(w.scales)[group];
  const float* levels = reinterpret_cast<const float*>(w.zeros);
  return __fadd_rn(__fmul_rn(levels[w.scales[group]], levels[257 + group / 256]), levels[256]);  // each rounded
}
// Of 8 bytes.
template <int packing>
DEVICE void levels_16(uint low, uint high, float scale, float (&values)[16]) {
  UNROLL for (int i = 0; i < 16; ++i) {
    const uint code = (i < 8 ? low : high) >> (i % 8 / 2 * 8 + (i % 2 == 0 ? 4 : 0)) & 15u;
    values[i] = (packing == NF4 ? level_nf4[code] : level_fp4[code]) * scale;
  }
}

DEVICE void awq_16(const Weight& w, long row, int column, float (&values)[16]) {
  const long words_of_row = w.rows / 8, group = group_of(w, column);
  const uint shift = (row & 1 ? 16 : 0) + (row % 8 / 2) * 4;  // nibbles 0 4 1 5 2 6 3 7
  const uint* words = reinterpret_cast<const uint*>(w.data) + column * words_of_row + row / 8;
  const uint zero = reinterpret_cast<const uint*>(w.zeros)[group * words_of_row + row / 8] >> shift & 15u;
  const float scale = scale_at(w, group * w.rows + row);
  UNROLL for (int c = 0; c < 16; ++c) {
    const uint code = words[c * words_of_row] >> shift & 15u;
    values[c] = scale * static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
  }
}

// The code that begins at a bit of words that lie `step` apart.
DEVICE int code_at(const uint* words, long step, long bit, int bits) {
  const uint from = static_cast<uint>(bit) % 32;
  uint code = words[bit / 32 * step] >> from;
  if (from + bits > 32) code |= words[(bit / 32 + 1) * step] << (32 - from);
  return static_cast<int>(code & ((1u << bits) - 1));
}
// 16 codes that fill whole words, `step` apart.
template <int bits>
DEVICE void codes_16(const uint* words, long step, int zero, float scale, float (&values)[16]) {
  UNROLL for (int i = 0; i < bits / 2; ++i) {
    const uint word = words[i * step];
    UNROLL for (int c = 0; c < 32 / bits; ++c) {
      const int code = static_cast<int>(word >> (bits * c) & ((1u << bits) - 1));
      values[i * (32 / bits) + c] = scale * static_cast<float>(code - zero);
    }
  }
}
DEVICE void gptq_16(const Weight& w, long row, int column, float (&values)[16]) {
  const long n = w.rows, words_of_row = n * w.bits / 32;
  const uint* data = reinterpret_cast<const uint*>(w.data) + row;
  const auto zero_of = [&](long group) {
    return code_at(reinterpret_cast<const uint*>(w.zeros) + group * words_of_row, 1, row * w.bits, w.bits) + w.less;
  };
  if (w.has_order != 0) {
    UNROLL for (int c = 0; c < 16; ++c) {
      const long at = w.order[column + c], group = group_of(w, at);
      const int code = code_at(data, n, at * w.bits, w.bits);
      values[c] = scale_at(w, group * n + row) * static_cast<float>(code - zero_of(group));
    }
    return;
  }
  const long group = group_of(w, column);
  const float scale = scale_at(w, group * n + row);
  const int zero = zero_of(group);
  const uint* words = data + column / 16 * (w.bits / 2) * n;
  if (w.bits == 4) return codes_16<4>(words, n, zero, scale, values);
  if (w.bits == 8) return codes_16<8>(words, n, zero, scale, values);
  if (w.bits == 2) return codes_16<2>(words, n, zero, scale, values);
  UNROLL for (int c = 0; c < 16; ++c) {
    const int code = code_at(data, n, static_cast<long>(column + c) * w.bits, w.bits);
    values[c] = scale * static_cast<float>(code - zero);
  }
}

// ---------------------------------------------------------------- any packing
// Whether a unit's bytes are brought first and expanded later; the others' lie apart.
template <int packing>
DEVICE constexpr bool has_raw() {
  return packing != AWQ_INT4 && packing != GPTQ_INT4;
}
DEVICE float scale_of_plane(const Weight& w, long row, int column) {
  const long rows_before = w.group_rows > 1 ? static_cast<uint>(row) / static_cast<uint>(w.group_rows) : row;
  return scale_at(w, rows_before * groups_of(w) + group_of(w, column));
}

// Unit of `row`; of its second half, what is beyond the row is left out.
template <int packing>
DEVICE void bring_unit(const Weight& w, long row, int unit, RawUnit& raw) {
  if constexpr (is_of_blocks<packing>()) {
    load_unit<packing>(block_at<packing>(w, row, unit), unit % units_of_block<packing>(), raw);
  } else {
    const long at = row * w.columns + unit * 32;
    const bool both = unit * 32 + 16 < w.columns;
    if constexpr (packing == ROW_INT8 || packing == F8_BLOCK) {
      load_bytes<8>(w.data + at, raw.codes);
      raw.head[0] = __float_as_uint(scale_of_plane(w, row, unit * 32));
      if (both) {
        load_bytes<8>(w.data + at + 16, raw.extra);
        raw.head[1] = __float_as_uint(scale_of_plane(w, row, unit * 32 + 16));
      }
    } else {
      const Two low = *reinterpret_cast<const Two*>(w.data + at / 2);
      raw.codes[0] = low.w[0], raw.codes[1] = low.w[1];
      raw.head[0] = __float_as_uint(scale_of_level(w, at));
      if (both) {
        const Two high = *reinterpret_cast<const Two*>(w.data + at / 2 + 8);
        raw.codes[2] = high.w[0], raw.codes[3] = high.w[1];
        raw.head[1] = __float_as_uint(scale_of_level(w, at + 16));
      }
    }
  }
}

// Half h of a unit, `unit` being counted from the beginning of its row.
template <int packing>
DEVICE void expand_unit(const RawUnit& raw, int unit, int h, float (&values)[16]) {
  if constexpr (is_of_blocks<packing>() || packing == ROW_INT8) {
    values_of<packing>(parts_of_unit<packing>(raw, unit % units_of_block<packing>(), h), values);
  } else if constexpr (packing == F8_BLOCK) {
    const float scale = __uint_as_float(raw.head[h]);
    UNROLL for (int i = 0; i < 16; ++i) {
      values[i] = e4m3_to_float((h == 0 ? raw.codes[i / 4] : raw.extra[i / 4]) >> (i % 4 * 8) & 255u) * scale;
    }
  } else {
    levels_16<packing>(raw.codes[2 * h], raw.codes[2 * h + 1], __uint_as_float(raw.head[h]), values);
  }
}

// 16 neighbours of `row`, from `column` on, a multiple of 16.
template <int packing>
DEVICE void weight_16(const Weight& w, long row, int column, float (&values)[16]) {
  if constexpr (is_of_blocks<packing>()) {
    RawUnit raw;
    const int unit = unit_of<packing>(column);
    bring_unit<packing>(w, row, unit, raw);
    expand_unit<packing>(raw, unit, half_of<packing>(column), values);
  } else if constexpr (packing == AWQ_INT4) {
    awq_16(w, row, column, values);
  } else if constexpr (packing == GPTQ_INT4) {
    gptq_16(w, row, column, values);
  } else {  // as the first half of a unit
    RawUnit raw;
    const long at = row * w.columns + column;
    if constexpr (packing == ROW_INT8 || packing == F8_BLOCK) {
      load_bytes<8>(w.data + at, raw.codes);
      raw.head[0] = __float_as_uint(scale_of_plane(w, row, column));
    } else {
      const Two bytes = *reinterpret_cast<const Two*>(w.data + at / 2);
      raw.codes[0] = bytes.w[0], raw.codes[1] = bytes.w[1];
      raw.head[0] = __float_as_uint(scale_of_level(w, at));
    }
    expand_unit<packing>(raw, 0, 0, values);
  }
}
