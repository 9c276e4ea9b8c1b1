#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/ggml_types.h"
#include "ops/ref/packing_blocks.h"
#include "ops/ref/tensor.h"

namespace tern::models {
namespace {

// What a device's products mean by a packing is what the file's reader makes of it, which equals the gguf package's.
TEST(Packing, TheOracleExpandsAsTheReaderDoes) {
  int checked = 0;
  std::mt19937 random(5);
  for (const checkpoint::GgmlTypeInfo& info : checkpoint::ggml_types()) {
    const auto packing = checkpoint::ggml_packing(info.type);
    if (!packing) continue;
    constexpr std::int64_t kBlocks = 64;
    std::vector<std::byte> bytes(static_cast<std::size_t>(kBlocks * info.block_bytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(info.block_bytes)) {
      for (const int half : ops::ref::block_halves(*packing)) {  // finite numbers
        const std::uint16_t bits = float_to_fp16(static_cast<float>(random() % 2000) / 512.0F - 2.0F);
        bytes[at + static_cast<std::size_t>(half)] = static_cast<std::byte>(bits & 255);
        bytes[at + static_cast<std::size_t>(half) + 1] = static_cast<std::byte>(bits >> 8);
      }
      if (ops::ref::block_halves(*packing).empty()) bytes[at] = static_cast<std::byte>(64 + random() % 128);
    }
    const std::int64_t elements = kBlocks * info.block_elements;
    std::vector<float> expected(static_cast<std::size_t>(elements));
    ASSERT_TRUE(checkpoint::dequantize(info.type, bytes, expected).ok()) << info.name;
    const std::span<const std::byte> plane(bytes);
    const auto tensor =
        ops::ref::decode(make_quantised_desc(TERN_F32, gguf_scheme(*packing), 1, elements), std::span(&plane, 1));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(static_cast<float>(tensor.real[i]), expected[i]) << info.name << " element " << i;
      ASSERT_GE(tensor.parts[i] * 1.000001, std::abs(tensor.real[i])) << info.name << " element " << i;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 13);
}

}  // namespace
}  // namespace tern::models
