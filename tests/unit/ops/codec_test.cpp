// The codec of the oracles: were it wrong, every device would be judged by wrong numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/dtype.h"
#include "base/half.h"
#include "ops/ref/packing.h"
#include "ops/ref/tensor.h"

namespace tern::ops::ref {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double through(tern_dtype dtype, double value) {
  Tensor one;
  one.desc = make_desc(dtype, {1});
  one.real = {value};
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(dtype)));
  encode(one, one.desc, bytes);
  const std::span<const std::byte> plane(bytes);
  return decode(one.desc, std::span(&plane, 1)).real[0];
}

TEST(Codec, EveryBitPatternOfTheNarrowFloatsSurvives) {
  for (tern_dtype dtype : {TERN_F16, TERN_BF16, TERN_F8_E4M3, TERN_F8_E5M2}) {
    const int width = dtype_bytes(dtype);
    for (std::uint32_t bits = 0; bits < (1U << (8 * width)); ++bits) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(width));
      std::memcpy(bytes.data(), &bits, bytes.size());
      const std::span<const std::byte> plane(bytes);
      const Tensor value = decode(make_desc(dtype, {1}), std::span(&plane, 1));
      if (std::isnan(value.real[0])) continue;
      std::vector<std::byte> back(bytes.size());
      encode(value, value.desc, back);
      ASSERT_EQ(back, bytes) << dtype_name(dtype) << " " << bits;
    }
  }
}

TEST(Codec, RoundsAsTheHardwareConversionsDo) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(round_to(TERN_BF16, value), static_cast<double>(bf16_to_float(float_to_bf16(value)))) << value;
    ASSERT_EQ(round_to(TERN_F16, value), static_cast<double>(fp16_to_float(float_to_fp16(value)))) << value;
  }
}

TEST(Codec, RoundsToNearestEvenFromDoubleOnce) {
  // 1 + 2^-8 lies between two bf16 numbers; a bit more than that rounds up, though fp32 would lose the bit
  EXPECT_EQ(round_to(TERN_BF16, 1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(round_to(TERN_BF16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_EQ(round_to(TERN_BF16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);
  EXPECT_EQ(round_to(TERN_F16, 65519.9), 65504.0);
  EXPECT_EQ(round_to(TERN_F16, 65520.0), kInf);
  EXPECT_EQ(round_to(TERN_F16, 0x1p-25), 0.0);
  EXPECT_EQ(round_to(TERN_F16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(through(TERN_F8_E4M3, 464.0), 448.0);
  EXPECT_TRUE(std::isnan(through(TERN_F8_E4M3, 465.0)));
  EXPECT_EQ(through(TERN_F8_E5M2, 61440.0), kInf);
  EXPECT_EQ(through(TERN_F8_E4M3, 0x1p-9), 0x1p-9);  // the smallest subnormal
  EXPECT_TRUE(std::signbit(through(TERN_F16, -0.0)));
}

TEST(Codec, HalfUlpIsTheFurthestRounding) {
  EXPECT_EQ(half_ulp(TERN_F32, 1.0), 0x1p-24);
  EXPECT_EQ(half_ulp(TERN_BF16, -1.5), 0x1p-8);
  EXPECT_EQ(half_ulp(TERN_F16, 0.0), 0x1p-25);
  EXPECT_EQ(unit_roundoff(TERN_F16), 0x1p-11);
}

TEST(Codec, StridesAreFollowedAndGapsAreKept) {
  TensorDesc desc = make_desc(TERN_I16, {2, 3});
  desc.strides[0] = 5;
  desc.strides[1] = 1;
  Tensor tensor;
  tensor.desc = desc;
  tensor.integer = {1, 2, 3, 4, 5, 6};
  std::vector<std::byte> bytes(plane_bytes(desc).bytes[0], std::byte{0xee});
  encode(tensor, desc, bytes);
  std::vector<std::uint16_t> words(bytes.size() / 2);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  EXPECT_EQ(words, (std::vector<std::uint16_t>{1, 2, 3, 0xeeee, 0xeeee, 4, 5, 6}));
  const std::span<const std::byte> plane(bytes);
  EXPECT_EQ(decode(desc, std::span(&plane, 1)).integer, tensor.integer);

  desc.strides[0] = 0;  // both rows are the first
  const std::span<const std::byte> first = plane.first(6);
  EXPECT_EQ(decode(desc, std::span(&first, 1)).integer, (std::vector<std::int64_t>{1, 2, 3, 1, 2, 3}));
}

TEST(Codec, IntegersKeepTheirSign) {
  for (tern_dtype dtype : {TERN_I8, TERN_I16, TERN_I32, TERN_I64}) {
    Tensor tensor;
    tensor.desc = make_desc(dtype, {2});
    tensor.integer = {-5, 100};
    std::vector<std::byte> bytes(plane_bytes(tensor.desc).bytes[0]);
    encode(tensor, tensor.desc, bytes);
    const std::span<const std::byte> plane(bytes);
    EXPECT_EQ(decode(tensor.desc, std::span(&plane, 1)).integer, tensor.integer) << dtype_name(dtype);
  }
}

TEST(Codec, ShortPlanesAreRefused) {
  std::vector<std::byte> bytes(7);
  const std::span<const std::byte> plane(bytes);
  EXPECT_THROW((void)decode(make_desc(TERN_F32, {2}), std::span(&plane, 1)), std::invalid_argument);
  EXPECT_THROW((void)decode(make_desc(TERN_F32, {2}), {}), std::invalid_argument);
}

// One block of a packing with the fp16 scales 0.5 (and 2.0), all other bytes counting up.
std::vector<double> expand(tern_packing packing, const std::vector<int>& scale_places) {
  const BlockSize block = packing_block(packing);
  std::vector<std::byte> bytes(static_cast<std::size_t>(block.bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  std::uint16_t scale = float_to_fp16(0.5F);
  for (int place : scale_places) {
    std::memcpy(bytes.data() + place, &scale, 2);
    scale = float_to_fp16(2.0F);
  }
  const std::span<const std::byte> plane(bytes);
  return decode(make_quantised_desc(TERN_F32, gguf_scheme(packing), 1, block.elements), std::span(&plane, 1)).real;
}

int byte_at(int place) { return (place * 37 + 11) & 0xff; }

TEST(Packing, BlocksOf32) {
  const auto q4_0 = expand(TERN_PACK_GGUF_Q4_0, {0});
  const auto q4_1 = expand(TERN_PACK_GGUF_Q4_1, {0, 2});
  const auto q8_0 = expand(TERN_PACK_GGUF_Q8_0, {0});
  const auto q5_0 = expand(TERN_PACK_GGUF_Q5_0, {0});
  const auto q5_1 = expand(TERN_PACK_GGUF_Q5_1, {0, 2});
  for (int j = 0; j < 32; ++j) {
    const auto i = static_cast<std::size_t>(j);
    auto nibble = [&](int data) { return j < 16 ? byte_at(data + j) & 15 : byte_at(data + j - 16) >> 4; };
    auto fifth = [&](int high) { return (byte_at(high + j / 8) >> (j % 8) & 1) << 4; };
    EXPECT_EQ(q4_0[i], 0.5 * (nibble(2) - 8));
    EXPECT_EQ(q4_1[i], 0.5 * nibble(4) + 2.0);
    EXPECT_EQ(q8_0[i], 0.5 * static_cast<std::int8_t>(byte_at(2 + j)));
    EXPECT_EQ(q5_0[i], 0.5 * ((nibble(6) | fifth(2)) - 16));
    EXPECT_EQ(q5_1[i], 0.5 * (nibble(8) | fifth(4)) + 2.0);
  }
}

TEST(Packing, SuperBlocks) {
  const auto q4_k = expand(TERN_PACK_GGUF_Q4_K, {0, 2});
  const auto q6_k = expand(TERN_PACK_GGUF_Q6_K, {208});
  // group 1 of Q4_K: scale and minimum in the low six bits of bytes 5 and 9; its values are the high nibbles of
  // bytes 16..47
  EXPECT_EQ(q4_k[32 + 3], 0.5 * (byte_at(5) & 63) * (byte_at(16 + 3) >> 4) - 2.0 * (byte_at(9) & 63));
  // group 6: four bits of byte 4 + 10 and two of byte 4 + 2
  const int scale = (byte_at(14) & 15) | (byte_at(6) >> 6 << 4);
  const int minimum = (byte_at(14) >> 4) | (byte_at(10) >> 6 << 4);
  EXPECT_EQ(q4_k[6 * 32 + 31], 0.5 * scale * (byte_at(16 + 96 + 31) & 15) - 2.0 * minimum);
  // element 40 of Q6_K: quarter 1, j 8: low nibble of byte 40, bits 2..3 of byte 128 + 8, scale 2
  const int q = (byte_at(40) & 15) | ((byte_at(136) >> 2 & 3) << 4);
  EXPECT_EQ(q6_k[40], 0.5 * static_cast<std::int8_t>(byte_at(192 + 2)) * (q - 32));
  // element 128 + 96 + 20: quarter 3 of the second half: high nibble of byte 64 + 32 + 20, bits 6..7 of byte 160 + 20
  const int last = (byte_at(116) >> 4) | ((byte_at(180) >> 6 & 3) << 4);
  EXPECT_EQ(q6_k[244], 0.5 * static_cast<std::int8_t>(byte_at(192 + 8 + 7)) * (last - 32));
}

TEST(Packing, RowInt8HasAScaleForEachGroup) {
  const tern_scheme scheme = {TERN_PACK_ROW_INT8, 8, 1, 4, TERN_F32, 0};
  const TensorDesc desc = make_quantised_desc(TERN_F32, scheme, 2, 8);
  std::vector<std::byte> data(16);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(static_cast<std::int8_t>(i) - 8);
  const std::vector<float> scales = {1.0F, 2.0F, 0.5F, -1.0F};
  const std::span<const std::byte> planes[2] = {data, std::as_bytes(std::span(scales))};
  const auto values = decode(desc, planes).real;
  EXPECT_EQ(values[3], -5.0);
  EXPECT_EQ(values[4], -8.0);
  EXPECT_EQ(values[8], 0.0);
  EXPECT_EQ(values[15], -7.0);
}

// Codes of 3 bits: those of 32 inputs fill three words, and two of them straddle.
TEST(Packing, GptqOfThreeBitsGoesAcrossWords) {
  const tern_scheme scheme = {TERN_PACK_GPTQ_INT4, 3, 1, 32, TERN_F32, TERN_SCHEME_IN_ORDER};
  const TensorDesc desc = make_quantised_desc(TERN_F32, scheme, 32, 32);
  std::vector<std::uint32_t> data(3 * 32), zeros(3);
  for (std::uint32_t i = 0; i < 32; ++i) {  // code (i + output) mod 8, zero point of output i mod 8
    for (std::uint32_t bit = 0; bit < 3; ++bit) {
      const std::uint32_t at = 3 * i + bit;
      zeros[at / 32] |= (i >> bit & 1U) << at % 32;
      for (std::uint32_t o = 0; o < 32; ++o) data[at / 32 * 32 + o] |= ((i + o) >> bit & 1U) << at % 32;
    }
  }
  const std::vector<float> scales(32, 0.5F);
  const std::span<const std::byte> planes[3] = {std::as_bytes(std::span(data)), std::as_bytes(std::span(scales)),
                                                std::as_bytes(std::span(zeros))};
  const auto values = decode(desc, planes).real;
  for (int o = 0; o < 32; ++o) {
    for (int i = 0; i < 32; ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(o * 32 + i)], 0.5 * ((i + o) % 8 - o % 8)) << o << " " << i;
  }
}

TEST(Packing, UnknownPackingsAreRefused) {
  EXPECT_FALSE(packing_is_known({TERN_PACK_MXFP4, 4, 1, 32, TERN_U8, 0}));
  EXPECT_FALSE(packing_is_known({TERN_PACK_GPTQ_INT4, 5, 1, 32, TERN_F16, 0}));
  std::vector<std::byte> bytes(64);
  const std::span<const std::byte> planes[2] = {bytes, bytes};
  const TensorDesc desc = make_quantised_desc(TERN_F32, {TERN_PACK_MXFP4, 4, 1, 32, TERN_U8, 0}, 1, 32);
  EXPECT_THROW((void)decode(desc, planes), std::invalid_argument);
}

}  // namespace
}  // namespace tern::ops::ref
