#include "checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "io/checksum.h"
#include "io/json.h"

namespace tern::checkpoint {
namespace {

// The generator of script/golden.d/gguf_dequantize.py.
std::vector<std::byte> random_bytes(std::uint64_t seed, std::size_t count) {
  std::vector<std::byte> out((count + 7) / 8 * 8);
  for (std::size_t i = 0; i < out.size() / 8; ++i) {
    std::uint64_t x = seed + (i + 1) * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    x ^= x >> 31;
    std::memcpy(out.data() + i * 8, &x, 8);
  }
  out.resize(count);
  return out;
}

// Broken if any bit of any block format, codebook or scale differs from the reference package.
TEST(Dequantize, EqualsTheGgufPackageToTheBit) {
  const auto golden = io::read_json_file(TERN_TEST_DATA "/checkpoint/dequantize.json");
  ASSERT_TRUE(golden.ok()) << golden.error().line();
  std::size_t checked = 0;
  for (const auto& row : (*golden)["types"]) {
    const auto type = ggml_type_from_name(row["type"].get<std::string>());
    ASSERT_TRUE(type) << row["type"];
    if (!can_dequantize(*type)) {  // plain integers and doubles, which the package only casts
      EXPECT_TRUE(ggml_plain_dtype(*type)) << row["type"];
      continue;
    }
    const GgmlTypeInfo& info = ggml_type_info(*type);
    const auto count = row["blocks"].get<std::size_t>();
    const auto bytes =
        random_bytes(static_cast<std::uint32_t>(*type), count * static_cast<std::size_t>(info.block_bytes));
    std::vector<float> values(count * static_cast<std::size_t>(info.block_elements));
    ASSERT_TRUE(dequantize(*type, bytes, values).ok());
    std::vector<std::uint32_t> bits(values.size());
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(values[i])) bits[i] = 0x7fc00000U;
    }
    for (std::size_t i = 0; i < row["first"].size(); ++i) {
      EXPECT_EQ(bits[i], row["first"][i].get<std::uint32_t>()) << info.name << " element " << i;
    }
    EXPECT_EQ(io::xxh3_64(std::as_bytes(std::span(bits))), row["xxh3_64"].get<std::string>()) << info.name;
    ++checked;
  }
  EXPECT_EQ(checked, 26U);
}

TEST(Dequantize, RefusesWrongSizesAndTypes) {
  std::vector<std::byte> bytes(18);
  std::vector<float> values(31);
  EXPECT_THROW((void)dequantize(GgmlType::q4_0, bytes, values), std::logic_error);
  values.resize(32);
  EXPECT_TRUE(dequantize(GgmlType::q4_0, bytes, values).ok());
  bytes.resize(17);
  EXPECT_THROW((void)dequantize(GgmlType::q4_0, bytes, values), std::logic_error);
  bytes.resize(40);
  const auto status = dequantize(GgmlType::q8_1, bytes, values);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().line().find("Q8_1"), std::string::npos);
}

}  // namespace
}  // namespace tern::checkpoint
