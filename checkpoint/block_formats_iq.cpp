// The "IQ" formats: elements come from a codebook ("grid") of short vectors, with signs and scales beside them.
#include <cstring>

#include "base/half.h"
#include "checkpoint/block_bits.h"
#include "checkpoint/block_formats.h"
#include "checkpoint/iq_grids.h"

namespace tern::checkpoint::blocks {
namespace {

std::uint16_t u16_at(const Byte* at) { return static_cast<std::uint16_t>(at[0] | (at[1] << 8)); }

std::uint32_t u32_at(const Byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, 4);
  return value;
}

// Seven sign bits; the eighth makes their number even.
Byte even_signs(unsigned index) {
  const unsigned bits = index & 127U;
  return static_cast<Byte>(bits | (static_cast<unsigned>(__builtin_popcount(bits) & 1) << 7));
}

constexpr float kIq2Values[4] = {0x08, 0x19, 0x2b, 0};
constexpr float kIq3xxsValues[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};
constexpr float kIq1Delta = 0.125F;

// Eight elements of two bits each.
void put8(std::uint16_t entry, Byte signs, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float magnitude = scale * kIq2Values[(entry >> (2 * i)) & 3];
    out[i] = magnitude * (((signs >> i) & 1) != 0 ? -1.0F : 1.0F);
  }
}

float iq3_value(std::uint16_t entry, int i, const float* values) { return values[(entry >> (4 * i)) & 7]; }

void put_iq1(std::uint16_t entry, float scale, float delta, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(((entry >> (2 * i)) & 3) - 1) + delta);
}

}  // namespace

// d f16, then 8 groups of 32: grid index u8 [4], sign index 7 bit [4], scale 4 bit
void iq2_xxs(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const Byte* at = block + 2 + group * 8;
    const std::uint32_t tail = u32_at(at + 4);
    const float scale = d * (0.5F + static_cast<float>(tail >> 28)) * 0.25F;
    for (int l = 0; l < 4; ++l) put8(kIq2xxsGrid[at[l]], even_signs(tail >> (7 * l)), scale, out + group * 32 + l * 8);
  }
}

// d f16, {grid index 9 bit, sign index 7 bit} u16 [32], scales 4 bit [16]
void iq2_xs(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const float scale = d * (0.5F + static_cast<float>(nibble(block + 66, i / 2))) * 0.25F;
    const std::uint16_t q = u16_at(block + 2 + 2 * i);
    put8(kIq2xsGrid[q & 511], even_signs(q >> 9), scale, out + i * 8);
  }
}

// d f16, grid index low 8 bit [32], signs [32], high 2 bit [32], scales 4 bit [16]
void iq2_s(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const float scale = d * (0.5F + static_cast<float>(nibble(block + 74, i / 2))) * 0.25F;
    const int high = (block[66 + i / 4] >> (2 * (i % 4))) & 3;
    put8(kIq2sGrid[block[2 + i] | (high << 8)], block[34 + i], scale, out + i * 8);
  }
}

// d f16, grid index u8 [64], then 8 words of sign index 7 bit [4] and scale 4 bit
void iq3_xxs(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const std::uint32_t tail = u32_at(block + 66 + 4 * group);
    const float scale = d * (0.5F + static_cast<float>(tail >> 28)) * 0.5F;
    for (int e = group * 32; e < group * 32 + 32; ++e) {
      const Byte signs = even_signs(tail >> (7 * (e % 32 / 8)));
      const float magnitude = scale * iq3_value(kIq3xxsGrid[block[2 + e / 4]], e % 4, kIq3xxsValues);
      out[e] = magnitude * (((signs >> (e % 8)) & 1) != 0 ? -1.0F : 1.0F);
    }
  }
}

// d f16, grid index low 8 bit [64], ninth bits [64], signs [32], scales 4 bit [8]
void iq3_s(const Byte* block, float* out) {
  static constexpr float kOdd[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  const float d = half_at(block);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(1 + 2 * nibble(block + 106, e / 32));
    const int i = e / 4;
    const int high = (block[66 + i / 8] >> (i % 8)) & 1;
    const float magnitude = scale * iq3_value(kIq3sGrid[block[2 + i] | (high << 8)], e % 4, kOdd);
    out[e] = magnitude * (((block[74 + e / 8] >> (e % 8)) & 1) != 0 ? -1.0F : 1.0F);
  }
}

// d f16, grid index low 8 bit [32], then 8 words: high 3 bit [4], scale 3 bit, sign of the shift
void iq1_s(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const std::uint16_t word = u16_at(block + 34 + 2 * (i / 4));
    const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
    const int high = (word >> (3 * (i % 4))) & 7;
    put_iq1(kIq1sGrid[block[2 + i] | (high << 8)], scale, (word & 0x8000) != 0 ? -kIq1Delta : kIq1Delta, out + i * 8);
  }
}

// grid index low 8 bit [32], {high 3 bit, sign of the shift} [32], scales u16 [4]: 3 bit [4] each, and a quarter of
// the f16 scale in each top nibble
void iq1_m(const Byte* block, float* out) {
  std::uint16_t scales[4];
  int bits = 0;
  for (int i = 0; i < 4; ++i) {
    scales[i] = u16_at(block + 48 + 2 * i);
    bits |= (scales[i] >> 12) << (4 * i);
  }
  const float d = fp16_to_float(static_cast<std::uint16_t>(bits));
  for (int i = 0; i < 32; ++i) {
    const int group = i / 2;
    const float scale = d * static_cast<float>(2 * ((scales[group / 4] >> (3 * (group % 4))) & 7) + 1);
    const int high = nibble(block + 32, i);
    put_iq1(kIq1sGrid[block[i] | ((high & 7) << 8)], scale, (high & 8) != 0 ? -kIq1Delta : kIq1Delta, out + i * 8);
  }
}

}  // namespace tern::checkpoint::blocks
