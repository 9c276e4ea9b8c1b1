// How each packing of blocks holds its codes (ggml-common.h of the GGUF format), over the registers of x15_*.h.
//
// values(g) gives group g's 32 codes as two W of 16. A block of one group has a `scale` that they are multiplied by
// and, where kMinimum, a `minimum` that is added. A block of eight has `scales` and `minima` of each group; where
// kHalves, the first eight are those of codes 0 to 15 and the next eight those of 16 to 31.
#pragma once

#include <cstdint>
#include <cstring>

namespace tern::cpu {
namespace {

template <typename S>
struct Codes {
  typename S::W first, second;  // elements 0 to 15, and 16 to 31
};

// 16 bytes: the low nibbles are the first half's codes, the high ones the second's.
template <typename S>
TERN_INLINE Codes<S> nibbles(const std::uint8_t* p) {
  const auto both = S::bytes(p);
  return {S::both(both, 15), S::right(both, 4)};
}

template <typename S, int Minus>
TERN_INLINE Codes<S> less(const Codes<S>& codes) {
  if constexpr (Minus == 0) return codes;
  return {S::minus(codes.first, Minus), S::minus(codes.second, Minus)};
}

// A scale, and a minimum where codes have no fixed offset. A packing of such blocks has codes(block).
template <typename S, bool Minimum>
struct OneGroup {
  static constexpr int kGroups = 1;
  static constexpr bool kHalves = false, kMinimum = Minimum;
  float scale, minimum = 0.0F;
  explicit OneGroup(const std::uint8_t* block) {
    if constexpr (Minimum) {
      S::two_halves(block, scale, minimum);
    } else {
      scale = S::half(block);
    }
  }
  // Of eight blocks that are `stride` bytes apart.
  TERN_INLINE void read_eight(const std::uint8_t* p, std::int64_t stride, float* scales, float* minima) {
    if constexpr (Minimum) {
      S::eight_pairs(p, stride, scales, minima);
    } else {
      S::eight_halves(p, stride, scales);
    }
  }
};

// A block of one group.
template <typename S, typename Packing>
struct One : Packing {
  const std::uint8_t* block;
  explicit One(const std::uint8_t* at) : Packing(at), block(at) {}
  Codes<S> values(int) const { return Packing::codes(block); }
};

// Eight neighbours of one group as a block of eight: their scales are read together.
template <typename S, typename Packing>
struct EightOf {
  static constexpr int kGroups = 8, kBytes = 8 * Packing::kBytes;
  static constexpr bool kHalves = false, kMinimum = Packing::kMinimum;
  const std::uint8_t* blocks;
  float scales[8], minima[8];
  explicit EightOf(const std::uint8_t* at) : blocks(at) { Packing::read_eight(at, Packing::kBytes, scales, minima); }
  Codes<S> values(int g) const { return Packing::codes(blocks + g * Packing::kBytes); }
};

template <typename S, int Minus>
struct BlockQ4 : OneGroup<S, Minus == 0> {  // Q4_0, Q4_1
  static constexpr int kBytes = Minus == 0 ? 20 : 18;
  using OneGroup<S, Minus == 0>::OneGroup;
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) { return less<S, Minus>(nibbles<S>(block + kBytes - 16)); }
};

template <typename S, int Minus>
struct BlockQ5 : OneGroup<S, Minus == 0> {  // Q5_0, Q5_1
  static constexpr int kBytes = Minus == 0 ? 24 : 22;
  using OneGroup<S, Minus == 0>::OneGroup;
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) {
    const std::uint8_t* p = block + kBytes - 20;
    std::uint16_t high[2];
    std::memcpy(high, p, 4);
    const Codes<S> low = nibbles<S>(p + 4);
    return less<S, Minus>({S::either(low.first, S::where(high[0], 16)), S::either(low.second, S::where(high[1], 16))});
  }
};

template <typename S>
struct BlockQ8 : OneGroup<S, false> {
  static constexpr int kBytes = 34;
  using OneGroup<S, false>::OneGroup;
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) {
    return {S::signed_bytes(block + 2), S::signed_bytes(block + 18)};
  }
};

// Codes in a plane of their own: the scale of a row is not among them.
template <typename S>
struct BlockInt8 {
  static constexpr int kGroups = 1, kBytes = 32;
  static constexpr bool kHalves = false, kMinimum = false;
  float scale = 1.0F;
  explicit BlockInt8(const std::uint8_t*) {}
  TERN_INLINE void read_eight(const std::uint8_t*, std::int64_t, float* scales, float*) {
    for (int i = 0; i < 8; ++i) scales[i] = 1.0F;
  }
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) {
    return {S::signed_bytes(block), S::signed_bytes(block + 16)};
  }
};

alignas(16) constexpr std::int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
alignas(16) constexpr std::int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <typename S>
struct BlockIq4Nl : OneGroup<S, false> {
  static constexpr int kBytes = 18;
  using OneGroup<S, false>::OneGroup;
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) {
    return {S::look_up(kIq4, block + 2, false), S::look_up(kIq4, block + 2, true)};
  }
};

template <typename S>
struct BlockMxfp4 {
  static constexpr int kGroups = 1, kBytes = 17;
  static constexpr bool kHalves = false, kMinimum = false;
  float scale;
  explicit BlockMxfp4(const std::uint8_t* block) : scale(half_power(block[0])) {}
  TERN_INLINE void read_eight(const std::uint8_t* p, std::int64_t stride, float* scales, float*) {
    for (int i = 0; i < 8; ++i) scales[i] = half_power(p[i * stride]);
  }
  TERN_INLINE Codes<S> codes(const std::uint8_t* block) {
    return {S::look_up(kFp4Doubled, block + 1, false), S::look_up(kFp4Doubled, block + 1, true)};
  }

 private:
  // Half of the power of two of a code, as the table is doubled.
  TERN_INLINE float half_power(std::uint32_t code) {
    const std::uint32_t bits = code < 2 ? 0x00200000U << code : (code - 1U) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return power;
  }
};

// d f16, dmin f16, 8 pairs of scale and minimum of 6 bits in 12 bytes, (Q5_K: 32 bytes of fifth bits,) 128 of nibbles.
template <typename S, bool Fifth>
struct BlockQ45K {
  static constexpr int kGroups = 8, kBytes = Fifth ? 176 : 144;
  static constexpr bool kHalves = false, kMinimum = true;
  const std::uint8_t* p;
  float scales[8], minima[8];
  explicit BlockQ45K(const std::uint8_t* block) : p(block + 16) {
    std::uint32_t word[3];
    std::memcpy(word, block + 4, 12);
    const std::uint32_t sixes = 0x3f3f3f3fU, fours = 0x0f0f0f0fU, twos = 0x03030303U;
    const std::uint64_t low = (word[0] & sixes) | std::uint64_t{(word[2] & fours) | (word[0] >> 6 & twos) << 4} << 32;
    const std::uint64_t high = (word[1] & sixes) | std::uint64_t{(word[2] >> 4 & fours) | (word[1] >> 6 & twos) << 4}
                                                       << 32;
    float d, dmin;
    S::two_halves(block, d, dmin);
    S::eight(low, d, scales);
    S::eight(high, -dmin, minima);
  }
  Codes<S> values(int g) const {
    const std::uint8_t* data = p + (Fifth ? 32 : 0) + g / 2 * 32;
    const auto a = S::bytes(data), b = S::bytes(data + 16);
    Codes<S> codes = g % 2 == 0 ? Codes<S>{S::both(a, 15), S::both(b, 15)} : Codes<S>{S::right(a, 4), S::right(b, 4)};
    if constexpr (Fifth) {
      codes.first = S::either(codes.first, S::left(S::both(S::right(S::bytes(p), g), 1), 4));
      codes.second = S::either(codes.second, S::left(S::both(S::right(S::bytes(p + 16), g), 1), 4));
    }
    return codes;
  }
};

template <typename S>
struct BlockQ6K {
  static constexpr int kGroups = 8, kBytes = 210;
  static constexpr bool kHalves = true, kMinimum = false;
  const std::uint8_t* p;
  float scales[16];
  explicit BlockQ6K(const std::uint8_t* block) : p(block) {
    std::uint8_t codes[16];
    S::deal(block + 192, codes);
    S::expand(S::signed_bytes(codes), S::half(block + 208), 0.0F, scales);
  }
  Codes<S> values(int g) const {
    const std::uint8_t* low = p + g / 4 * 64 + g % 2 * 32;
    const std::uint8_t* high = p + 128 + g / 4 * 32;
    const auto half = [&](int at) {
      const auto byte = S::bytes(low + at);
      const auto nibble = g % 4 < 2 ? S::both(byte, 15) : S::right(byte, 4);
      return S::minus(S::either(nibble, S::left(S::both(S::right(S::bytes(high + at), g % 4 * 2), 3), 4)), 32);
    };
    return {half(0), half(16)};
  }
};

// Two bits of each of 32 bytes: those of group g % 4.
template <typename S>
TERN_INLINE Codes<S> crumbs(const std::uint8_t* p, int g) {
  return {S::both(S::right(S::bytes(p), g % 4 * 2), 3), S::both(S::right(S::bytes(p + 16), g % 4 * 2), 3)};
}

template <typename S>
struct BlockQ2K {
  static constexpr int kGroups = 8, kBytes = 84;
  static constexpr bool kHalves = true, kMinimum = true;
  const std::uint8_t* p;
  float scales[16], minima[16];
  explicit BlockQ2K(const std::uint8_t* block) : p(block + 16) {
    float d, dmin;
    S::two_halves(block + 80, d, dmin);
    std::uint8_t pairs[16];
    S::deal(block, pairs);
    const auto both = S::bytes(pairs);
    S::expand(S::both(both, 15), d, 0.0F, scales);
    S::expand(S::right(both, 4), -dmin, 0.0F, minima);
  }
  Codes<S> values(int g) const { return crumbs<S>(p + g / 4 * 32, g); }
};

template <typename S>
struct BlockQ3K {
  static constexpr int kGroups = 8, kBytes = 110;
  static constexpr bool kHalves = true, kMinimum = false;
  const std::uint8_t* p;
  float scales[16];
  explicit BlockQ3K(const std::uint8_t* block) : p(block) {
    std::uint8_t codes[16], dealt[16];
    for (int i = 0; i < 16; ++i) {
      const int low = block[96 + i % 8] >> (i / 8 * 4) & 15, high = block[104 + i % 4] >> (i / 4 * 2) & 3;
      codes[i] = static_cast<std::uint8_t>((low | high << 4) - 32);
    }
    S::deal(codes, dealt);
    S::expand(S::signed_bytes(dealt), S::half(block + 108), 0.0F, scales);
  }
  Codes<S> values(int g) const {
    const Codes<S> low = crumbs<S>(p + 32 + g / 4 * 32, g);
    const auto whole = [&](typename S::W two, const std::uint8_t* third) {
      return S::minus(S::either(two, S::left(S::both(S::right(S::bytes(third), g), 1), 2)), 4);
    };
    return {whole(low.first, p), whole(low.second, p + 16)};
  }
};

template <typename S>
struct BlockIq4Xs {
  static constexpr int kGroups = 8, kBytes = 136;
  static constexpr bool kHalves = false, kMinimum = false;
  const std::uint8_t* p;
  float scales[8];
  explicit BlockIq4Xs(const std::uint8_t* block) : p(block + 8) {
    const float d = S::half(block);
    std::uint16_t high;
    std::memcpy(&high, block + 2, 2);
    for (int i = 0; i < 8; ++i) {
      const int low = block[4 + i / 2] >> (i % 2 * 4) & 15;
      scales[i] = d * static_cast<float>((low | (high >> (2 * i) & 3) << 4) - 32);
    }
  }
  Codes<S> values(int g) const { return {S::look_up(kIq4, p + 16 * g, false), S::look_up(kIq4, p + 16 * g, true)}; }
};

}  // namespace
}  // namespace tern::cpu
