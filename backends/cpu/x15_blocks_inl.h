// How each packing of blocks holds its codes (ggml-common.h of the GGUF format), over the registers of x15_*.h.
//
// A block has kGroups groups of 32 elements. values(g) gives a group's codes as two W of 16; scale(g, half) what they
// are multiplied by, of each half where kHalves, else the same for both; minimum(g, half) what is added, where
// kMinimum.
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

template <typename S, int MinusEight>
struct BlockQ4 {  // Q4_0, Q4_1
  static constexpr int kGroups = 1;
  static constexpr bool kHalves = false, kMinimum = MinusEight == 0;
  static constexpr int kBytes = kMinimum ? 20 : 18;
  const std::uint8_t* p;
  float d, m = 0.0F;
  explicit BlockQ4(const std::uint8_t* block) : p(block), d(S::half(block)) {
    if constexpr (kMinimum) m = S::half(block + 2);
  }
  Codes<S> values(int) const {
    const Codes<S> codes = nibbles<S>(p + (kMinimum ? 4 : 2));
    if constexpr (kMinimum) return codes;
    return {S::minus(codes.first, 8), S::minus(codes.second, 8)};
  }
  float scale(int, int) const { return d; }
  float minimum(int, int) const { return m; }
};

template <typename S, int Minus16>
struct BlockQ5 {  // Q5_0, Q5_1
  static constexpr int kGroups = 1;
  static constexpr bool kHalves = false, kMinimum = Minus16 == 0;
  static constexpr int kBytes = kMinimum ? 24 : 22;
  const std::uint8_t* p;
  float d, m = 0.0F;
  explicit BlockQ5(const std::uint8_t* block) : p(block + (kMinimum ? 4 : 2)), d(S::half(block)) {
    if constexpr (kMinimum) m = S::half(block + 2);
  }
  Codes<S> values(int) const {
    std::uint16_t high[2];
    std::memcpy(high, p, 4);
    const Codes<S> low = nibbles<S>(p + 4);
    const auto first = S::either(low.first, S::where(high[0], 16)),
               second = S::either(low.second, S::where(high[1], 16));
    if constexpr (kMinimum) return {first, second};
    return {S::minus(first, 16), S::minus(second, 16)};
  }
  float scale(int, int) const { return d; }
  float minimum(int, int) const { return m; }
};

template <typename S>
struct BlockQ8 {
  static constexpr int kGroups = 1, kBytes = 34;
  static constexpr bool kHalves = false, kMinimum = false;
  const std::uint8_t* p;
  float d;
  explicit BlockQ8(const std::uint8_t* block) : p(block + 2), d(S::half(block)) {}
  Codes<S> values(int) const { return {S::signed_bytes(p), S::signed_bytes(p + 16)}; }
  float scale(int, int) const { return d; }
  float minimum(int, int) const { return 0.0F; }
};

// The 6-bit scales and minima of Q4_K and Q5_K, 12 bytes.
struct ScalesK {
  float scale[8], minimum[8];
  TERN_INLINE ScalesK of(const std::uint8_t* packed, float d, float dmin) {
    std::uint32_t word[3];
    std::memcpy(word, packed, 12);
    const std::uint32_t sixes = 0x3f3f3f3fU, fours = 0x0f0f0f0fU, twos = 0x03030303U;
    const std::uint32_t both[4] = {word[0] & sixes, (word[2] & fours) | ((word[0] >> 6 & twos) << 4), word[1] & sixes,
                                   (word[2] >> 4 & fours) | ((word[1] >> 6 & twos) << 4)};
    std::uint8_t codes[16];
    std::memcpy(codes, both, 16);
    ScalesK out;
    for (int i = 0; i < 8; ++i) out.scale[i] = d * static_cast<float>(codes[i]);
    for (int i = 0; i < 8; ++i) out.minimum[i] = dmin * static_cast<float>(codes[8 + i]);
    return out;
  }
};

template <typename S, bool Fifth>
struct BlockQ45K {  // Q4_K, Q5_K
  static constexpr int kGroups = 8, kBytes = Fifth ? 176 : 144;
  static constexpr bool kHalves = false, kMinimum = true;
  const std::uint8_t* p;
  ScalesK scales;
  explicit BlockQ45K(const std::uint8_t* block)
      : p(block + 16), scales(ScalesK::of(block + 4, S::half(block), -S::half(block + 2))) {}
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
  float scale(int g, int) const { return scales.scale[g]; }
  float minimum(int g, int) const { return scales.minimum[g]; }
};

template <typename S>
struct BlockQ6K {
  static constexpr int kGroups = 8, kBytes = 210;
  static constexpr bool kHalves = true, kMinimum = false;
  const std::uint8_t* p;
  float scales[16];
  explicit BlockQ6K(const std::uint8_t* block) : p(block) {
    const float d = S::half(block + 208);
    for (int i = 0; i < 16; ++i) scales[i] = d * static_cast<float>(static_cast<std::int8_t>(block[192 + i]));
  }
  Codes<S> values(int g) const {
    const std::uint8_t* low = p + g / 4 * 64 + g % 2 * 32;
    const std::uint8_t* high = p + 128 + g / 4 * 32;
    const int shift = g % 4 * 2;
    const auto half = [&](int at) {
      const auto byte = S::bytes(low + at);
      const auto nibble = g % 4 < 2 ? S::both(byte, 15) : S::right(byte, 4);
      return S::minus(S::either(nibble, S::left(S::both(S::right(S::bytes(high + at), shift), 3), 4)), 32);
    };
    return {half(0), half(16)};
  }
  float scale(int g, int half) const { return scales[2 * g + half]; }
  float minimum(int, int) const { return 0.0F; }
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
    const float d = S::half(block + 80), dmin = -S::half(block + 82);
    for (int i = 0; i < 16; ++i) scales[i] = d * static_cast<float>(block[i] & 15);
    for (int i = 0; i < 16; ++i) minima[i] = dmin * static_cast<float>(block[i] >> 4);
  }
  Codes<S> values(int g) const { return crumbs<S>(p + g / 4 * 32, g); }
  float scale(int g, int half) const { return scales[2 * g + half]; }
  float minimum(int g, int half) const { return minima[2 * g + half]; }
};

template <typename S>
struct BlockQ3K {
  static constexpr int kGroups = 8, kBytes = 110;
  static constexpr bool kHalves = true, kMinimum = false;
  const std::uint8_t* p;
  float scales[16];
  explicit BlockQ3K(const std::uint8_t* block) : p(block) {
    const float d = S::half(block + 108);
    for (int i = 0; i < 16; ++i) {
      const int low = block[96 + i % 8] >> (i / 8 * 4) & 15, high = block[104 + i % 4] >> (i / 4 * 2) & 3;
      scales[i] = d * static_cast<float>((low | high << 4) - 32);
    }
  }
  Codes<S> values(int g) const {
    const Codes<S> low = crumbs<S>(p + 32 + g / 4 * 32, g);
    const auto whole = [&](typename S::W two, const std::uint8_t* third) {
      return S::minus(S::either(two, S::left(S::both(S::right(S::bytes(third), g), 1), 2)), 4);
    };
    return {whole(low.first, p), whole(low.second, p + 16)};
  }
  float scale(int g, int half) const { return scales[2 * g + half]; }
  float minimum(int, int) const { return 0.0F; }
};

alignas(16) constexpr std::int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
alignas(16) constexpr std::int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <typename S>
struct BlockIq4Nl {
  static constexpr int kGroups = 1, kBytes = 18;
  static constexpr bool kHalves = false, kMinimum = false;
  const std::uint8_t* p;
  float d;
  explicit BlockIq4Nl(const std::uint8_t* block) : p(block + 2), d(S::half(block)) {}
  Codes<S> values(int) const { return {S::look_up(kIq4, p, false), S::look_up(kIq4, p, true)}; }
  float scale(int, int) const { return d; }
  float minimum(int, int) const { return 0.0F; }
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
  float scale(int g, int) const { return scales[g]; }
  float minimum(int, int) const { return 0.0F; }
};

template <typename S>
struct BlockMxfp4 {
  static constexpr int kGroups = 1, kBytes = 17;
  static constexpr bool kHalves = false, kMinimum = false;
  const std::uint8_t* p;
  float d;  // half of the power of two, as the table is doubled
  explicit BlockMxfp4(const std::uint8_t* block) : p(block + 1) {
    const std::uint32_t bits = block[0] < 2 ? 0x00200000U << block[0] : (block[0] - 1U) << 23;
    std::memcpy(&d, &bits, 4);
  }
  Codes<S> values(int) const { return {S::look_up(kFp4Doubled, p, false), S::look_up(kFp4Doubled, p, true)}; }
  float scale(int, int) const { return d; }
  float minimum(int, int) const { return 0.0F; }
};

}  // namespace
}  // namespace tern::cpu
