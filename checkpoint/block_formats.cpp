// The plain and "K" block formats. Layouts are stated as fields in order; `e` is the element's index in its block.
#include "checkpoint/block_formats.h"

#include <bit>
#include <cstring>

#include "checkpoint/block_bits.h"

namespace tern::checkpoint::blocks {
namespace {

// Two-bit field of element e where four runs of 32 share 32 bytes.
int crumb(const Byte* bytes, int e) { return (bytes[e / 128 * 32 + e % 32] >> (2 * (e % 128 / 32))) & 3; }

constexpr float kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // OCP MX v1.0, e2m1

// 2^(exponent - 128): half the scale, as the table above is doubled.
float e8m0_half(Byte exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : static_cast<std::uint32_t>(exponent - 1) << 23);
}

// Unsigned e4m3 (bias 7), halved; 0x7f stands for nothing.
float ue4m3_half(Byte value) {
  if (value == 0 || value == 0x7f) return 0;
  const int exponent = (value >> 3) & 15;
  const auto mantissa = static_cast<float>(value & 7);
  if (exponent == 0) return mantissa * 0x1p-9F * 0.5F;
  const float power = std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 7 + 127) << 23);
  return (1.0F + mantissa / 8.0F) * power * 0.5F;
}

}  // namespace

// d f16, q 4 bit [2][16]
void q4_0(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

// d f16, m f16, q 4 bit [2][16]
void q4_1(const Byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(block[4 + i] >> 4) + m;
  }
}

// d f16, fifth bits u32, q 4 bit [2][16]
void q5_0(const Byte* block, float* out) {
  const float d = half_at(block);
  std::uint32_t high = 0;
  std::memcpy(&high, block + 2, 4);
  for (int e = 0; e < 32; ++e) {
    const int low = (block[6 + e % 16] >> (4 * (e / 16))) & 15;
    out[e] = d * static_cast<float>((low | static_cast<int>(((high >> e) & 1U) << 4)) - 16);
  }
}

// d f16, m f16, fifth bits u32, q 4 bit [2][16]
void q5_1(const Byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  std::uint32_t high = 0;
  std::memcpy(&high, block + 4, 4);
  for (int e = 0; e < 32; ++e) {
    const int low = (block[8 + e % 16] >> (4 * (e / 16))) & 15;
    out[e] = d * static_cast<float>(low | static_cast<int>(((high >> e) & 1U) << 4)) + m;
  }
}

// d f16, q i8 [32]
void q8_0(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int e = 0; e < 32; ++e) out[e] = static_cast<float>(static_cast<std::int8_t>(block[2 + e])) * d;
}

// {scale, minimum} 4 bit [16], q 2 bit [2][4][32], d f16, dmin f16
void q2_k(const Byte* block, float* out) {
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int e = 0; e < 256; ++e) {
    const Byte pair = block[e / 16];
    const float scale = d * static_cast<float>(pair & 15);
    const float minimum = dmin * static_cast<float>(pair >> 4);
    out[e] = scale * static_cast<float>(crumb(block + 16, e)) - minimum;
  }
}

// third bits [8][32], q 2 bit [2][4][32], scales 6 bit [16] in 12 bytes, d f16
void q3_k(const Byte* block, float* out) {
  const Byte* packed = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = (packed[group % 8] >> (4 * (group / 8))) & 15;
    const int high = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    for (int e = group * 16; e < group * 16 + 16; ++e) {
      const int absent = ((block[e % 32] >> (e / 32)) & 1) ^ 1;  // a clear bit takes four away
      out[e] = scale * static_cast<float>(crumb(block + 32, e) - 4 * absent);
    }
  }
}

// Bytes 0-3: scales 0-3 (6 bits) and the high two bits of scales 4-7; bytes 4-7: the same of the minima; bytes 8-11:
// the low four bits of scales and of minima 4-7.
ScaleMin unpack_scale_min(const Byte* packed) {
  ScaleMin out{};
  for (int i = 0; i < 4; ++i) {
    out.scale[i] = packed[i] & 63;
    out.minimum[i] = packed[4 + i] & 63;
    out.scale[4 + i] = static_cast<Byte>((packed[8 + i] & 15) | ((packed[i] >> 2) & 0x30));
    out.minimum[4 + i] = static_cast<Byte>((packed[8 + i] >> 4) | ((packed[4 + i] >> 2) & 0x30));
  }
  return out;
}

// d f16, dmin f16, scales and minima [8] in 12 bytes, q 4 bit [4][2][32]
void q4_k(const Byte* block, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const ScaleMin packed = unpack_scale_min(block + 4);
  for (int group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(packed.scale[group]);
    const float minimum = dmin * static_cast<float>(packed.minimum[group]);
    const Byte* q = block + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = scale * static_cast<float>((q[i] >> (4 * (group % 2))) & 15) - minimum;
    }
  }
}

// d f16, dmin f16, scales and minima [8] in 12 bytes, fifth bits [8][32], q 4 bit [4][2][32]
void q5_k(const Byte* block, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const ScaleMin packed = unpack_scale_min(block + 4);
  for (int group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(packed.scale[group]);
    const float minimum = dmin * static_cast<float>(packed.minimum[group]);
    const Byte* q = block + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int high = ((block[16 + i] >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(((q[i] >> (4 * (group % 2))) & 15) | high) - minimum;
    }
  }
}

// q low 4 bit [2][2][64], q high 2 bit [2][4][32], scales i8 [16], d f16
void q6_k(const Byte* block, float* out) {
  const float d = half_at(block + 208);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[192 + e / 16]));
    const int low = (block[e / 128 * 64 + e % 64] >> (4 * (e % 128 / 64))) & 15;
    out[e] = scale * static_cast<float>((low | (crumb(block + 128, e) << 4)) - 32);
  }
}

// Five ternary digits a byte, as a fixed-point fraction of 3^5: 32 and 16 bytes, then 4 bytes of four digits; d f16
void tq1_0(const Byte* block, float* out) {
  static constexpr Byte kPowers[5] = {1, 3, 9, 27, 81};
  const float d = half_at(block + 52);
  const auto run = [&](const Byte* bytes, int width, int digits) {
    for (int digit = 0; digit < digits; ++digit) {
      for (int i = 0; i < width; ++i) {
        const auto shifted = static_cast<Byte>(bytes[i] * kPowers[digit]);
        *out++ = d * static_cast<float>(((shifted * 3) >> 8) - 1);
      }
    }
  };
  run(block, 32, 5);
  run(block + 32, 16, 5);
  run(block + 48, 4, 4);
}

// q 2 bit [2][4][32], d f16
void tq2_0(const Byte* block, float* out) {
  const float d = half_at(block + 64);
  for (int e = 0; e < 256; ++e) out[e] = d * static_cast<float>(crumb(block, e) - 1);
}

// scale e8m0, q e2m1 [2][16]
void mxfp4(const Byte* block, float* out) {
  const float d = e8m0_half(block[0]);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kFp4Doubled[block[1 + i] & 15];
    out[i + 16] = d * kFp4Doubled[block[1 + i] >> 4];
  }
}

// scales ue4m3 [4], q e2m1 [4][2][8]
void nvfp4(const Byte* block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float d = ue4m3_half(block[group]);
    const Byte* q = block + 4 + group * 8;
    for (int i = 0; i < 8; ++i) {
      out[group * 16 + i] = d * kFp4Doubled[q[i] & 15];
      out[group * 16 + 8 + i] = d * kFp4Doubled[q[i] >> 4];
    }
  }
}

namespace {
constexpr float kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
}

// d f16, q index [2][16]
void iq4_nl(const Byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kIq4[block[2 + i] & 15];
    out[i + 16] = d * kIq4[block[2 + i] >> 4];
  }
}

// d f16, high two bits of scales u16, low four bits [8], q index [8][2][16]
void iq4_xs(const Byte* block, float* out) {
  const float d = half_at(block);
  const int high = block[2] | (block[3] << 8);
  for (int group = 0; group < 8; ++group) {
    const int scale = (nibble(block + 4, group) | (((high >> (2 * group)) & 3) << 4)) - 32;
    const float dl = d * static_cast<float>(scale);
    const Byte* q = block + 8 + group * 16;
    for (int i = 0; i < 16; ++i) {
      out[group * 32 + i] = dl * kIq4[q[i] & 15];
      out[group * 32 + 16 + i] = dl * kIq4[q[i] >> 4];
    }
  }
}

}  // namespace tern::checkpoint::blocks
