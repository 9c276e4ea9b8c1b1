#include "ops/ref/packing_blocks.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "base/half.h"

namespace tern::ops::ref {
namespace {

using Block = const std::byte*;
using Out = std::span<ElementParts>;

int u8(Block at) { return std::to_integer<std::uint8_t>(*at); }
int i8(Block at) { return static_cast<std::int8_t>(u8(at)); }
double f16(Block at) { return fp16_to_float(static_cast<std::uint16_t>(u8(at) | (u8(at + 1) << 8))); }
int bits(Block at, int shift, int count) { return (u8(at) >> shift) & ((1 << count) - 1); }

// Of 32 elements: nibble j is element j, the high nibble of byte j is element j + 16.
int nibble(Block data, int j) { return bits(data + j % 16, j / 16 * 4, 4); }

void q4_0(Block b, Out out) {
  for (int j = 0; j < 32; ++j) out[j].scaled = f16(b) * (nibble(b + 2, j) - 8);
}

void q4_1(Block b, Out out) {
  for (int j = 0; j < 32; ++j) out[j] = {f16(b) * nibble(b + 4, j), f16(b + 2)};
}

void q5_0(Block b, Out out) {
  for (int j = 0; j < 32; ++j) {
    out[j].scaled = f16(b) * ((nibble(b + 6, j) | bits(b + 2 + j / 8, j % 8, 1) << 4) - 16);
  }
}

void q5_1(Block b, Out out) {
  for (int j = 0; j < 32; ++j) {
    out[j] = {f16(b) * (nibble(b + 8, j) | bits(b + 4 + j / 8, j % 8, 1) << 4), f16(b + 2)};
  }
}

void q8_0(Block b, Out out) {
  for (int j = 0; j < 32; ++j) out[j].scaled = f16(b) * i8(b + 2 + j);
}

// 256 elements: 16 pairs of nibbles (scale, minimum), 64 bytes of two bits, d f16, dmin f16.
void q2_k(Block b, Out out) {
  for (int j = 0; j < 256; ++j) {
    const int code = bits(b + 16 + j / 128 * 32 + j % 32, j % 128 / 32 * 2, 2);
    out[j] = {f16(b + 80) * bits(b + j / 16, 0, 4) * code, -f16(b + 82) * bits(b + j / 16, 4, 4)};
  }
}

// 32 bytes of third bits (clear: four less), 64 of two bits, 16 scales of six bits less 32 in 12 bytes, d f16.
void q3_k(Block b, Out out) {
  for (int j = 0; j < 256; ++j) {
    const int group = j / 16;
    const int low = bits(b + 96 + group % 8, group / 8 * 4, 4), high = bits(b + 104 + group % 4, group / 4 * 2, 2);
    const int code =
        bits(b + 32 + j / 128 * 32 + j % 32, j % 128 / 32 * 2, 2) - (bits(b + j % 32, j / 32, 1) != 0 ? 0 : 4);
    out[j].scaled = f16(b + 108) * ((low | high << 4) - 32) * code;
  }
}

// The scale (`of` 0) or minimum (`of` 4) of a group: 6 bits of 8 pairs in 12 bytes.
int six_bits(Block packed, int group, int of) {
  if (group < 4) return bits(packed + of + group, 0, 6);
  return bits(packed + 4 + group, of, 4) | bits(packed + of + group - 4, 6, 2) << 4;
}

// d f16, dmin f16, 8 pairs of scale and minimum, (Q5_K: 32 bytes of fifth bits,) 128 bytes of nibbles.
void q45_k(Block b, Out out, bool fifth) {
  for (int j = 0; j < 256; ++j) {
    const int group = j / 32;
    int code = bits(b + (fifth ? 48 : 16) + group / 2 * 32 + j % 32, group % 2 * 4, 4);
    if (fifth) code |= bits(b + 16 + j % 32, group, 1) << 4;
    out[j] = {f16(b) * six_bits(b + 4, group, 0) * code, -f16(b + 2) * six_bits(b + 4, group, 4)};
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 scales i8, d f16.
void q6_k(Block b, Out out) {
  for (int j = 0; j < 256; ++j) {
    const int half = j / 128, quarter = j % 128 / 32;
    const int low = bits(b + half * 64 + quarter % 2 * 32 + j % 32, quarter / 2 * 4, 4);
    const int high = bits(b + 128 + half * 32 + j % 32, quarter * 2, 2);
    out[j].scaled = f16(b + 208) * i8(b + 192 + j / 16) * ((low | high << 4) - 32);
  }
}

constexpr std::array<int, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void iq4_nl(Block b, Out out) {
  for (int j = 0; j < 32; ++j) out[j].scaled = f16(b) * kIq4[static_cast<std::size_t>(nibble(b + 2, j))];
}

// d f16, 8 pairs of high bits in two bytes, 8 nibbles of scales less 32, 8 groups of 16 bytes.
void iq4_xs(Block b, Out out) {
  for (int j = 0; j < 256; ++j) {
    const int group = j / 32;
    const int scale = (bits(b + 4 + group / 2, group % 2 * 4, 4) | bits(b + 2 + group / 4, group % 4 * 2, 2) << 4) - 32;
    out[j].scaled = f16(b) * scale * kIq4[static_cast<std::size_t>(nibble(b + 8 + group * 16, j % 32))];
  }
}

// A power of two, and E2M1 numbers (OCP Microscaling Formats 1.0).
void mxfp4(Block b, Out out) {
  constexpr std::array<double, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int j = 0; j < 32; ++j) {
    const int code = nibble(b + 1, j);
    const double value = kE2m1[static_cast<std::size_t>(code & 7)];
    out[j].scaled = std::ldexp(code < 8 ? value : -value, u8(b) - 127);
  }
}

struct Known {
  tern_packing packing;
  void (*expand)(Block block, Out out);
  std::array<int, 2> halves;
  std::size_t num_halves;
};

constexpr Known kKnown[] = {
    {TERN_PACK_GGUF_Q4_0, q4_0, {0}, 1},
    {TERN_PACK_GGUF_Q4_1, q4_1, {0, 2}, 2},
    {TERN_PACK_GGUF_Q5_0, q5_0, {0}, 1},
    {TERN_PACK_GGUF_Q5_1, q5_1, {0, 2}, 2},
    {TERN_PACK_GGUF_Q8_0, q8_0, {0}, 1},
    {TERN_PACK_GGUF_Q2_K, q2_k, {80, 82}, 2},
    {TERN_PACK_GGUF_Q3_K, q3_k, {108}, 1},
    {TERN_PACK_GGUF_Q4_K, [](Block b, Out out) { q45_k(b, out, false); }, {0, 2}, 2},
    {TERN_PACK_GGUF_Q5_K, [](Block b, Out out) { q45_k(b, out, true); }, {0, 2}, 2},
    {TERN_PACK_GGUF_Q6_K, q6_k, {208}, 1},
    {TERN_PACK_GGUF_IQ4_NL, iq4_nl, {0}, 1},
    {TERN_PACK_GGUF_IQ4_XS, iq4_xs, {0}, 1},
    {TERN_PACK_GGUF_MXFP4, mxfp4, {}, 0},
};

const Known* find(tern_packing packing) {
  for (const Known& known : kKnown) {
    if (known.packing == packing) return &known;
  }
  return nullptr;
}

}  // namespace

bool block_is_known(tern_packing packing) { return find(packing) != nullptr; }

void expand_block(tern_packing packing, const std::byte* block, std::span<ElementParts> out) {
  find(packing)->expand(block, out);
}

std::span<const int> block_halves(tern_packing packing) {
  const Known* known = find(packing);
  return known == nullptr ? std::span<const int>() : std::span(known->halves).first(known->num_halves);
}

}  // namespace tern::ops::ref
