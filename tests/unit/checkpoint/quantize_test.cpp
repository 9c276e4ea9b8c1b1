#include "checkpoint/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "checkpoint/dequantize.h"
#include "io/checksum.h"
#include "io/json.h"

namespace tern::checkpoint {
namespace {

// The generator of script/golden.d/gguf_quantize.py.
std::vector<float> test_values(std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t x = 77 + (i + 1) * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    x ^= x >> 31;
    double sum = 0;
    for (int part = 0; part < 4; ++part) sum += static_cast<double>((x >> (16 * part)) & 0xffff);
    out[i] = static_cast<float>(std::ldexp(sum / 65536.0 - 2.0, static_cast<int>(i / 32 * 7919 % 13) - 8));
  }
  return out;
}

std::vector<std::byte> pack(GgmlType type, const std::vector<float>& values) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  std::vector<std::byte> bytes(values.size() / static_cast<std::size_t>(info.block_elements) *
                               static_cast<std::size_t>(info.block_bytes));
  const auto status = quantize(type, values, bytes);
  EXPECT_TRUE(status.ok()) << status.error().line();
  return bytes;
}

double squared_error(GgmlType type, const std::vector<float>& values) {
  std::vector<float> back(values.size());
  EXPECT_TRUE(dequantize(type, pack(type, values), back).ok());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double gap = static_cast<double>(back[i]) - static_cast<double>(values[i]);
    sum += gap * gap;
  }
  return sum;
}

// Broken if a file that tern writes differs from what the reference tools write, or is coarser.
TEST(Quantize, EqualsOrBeatsTheReference) {
  const auto golden = io::read_json_file(TERN_TEST_DATA "/checkpoint/quantize.json").value();
  const auto values = test_values(golden["count"].get<std::size_t>());
  ASSERT_EQ(io::xxh3_64(std::as_bytes(std::span(values))), golden["values_xxh3_64"].get<std::string>());
  for (const auto& [name, expected] : golden["exact"].items()) {
    EXPECT_EQ(io::xxh3_64(pack(*ggml_type_from_name(name), values)), expected.get<std::string>()) << name;
  }
  for (const auto& [name, theirs] : golden["squared_error"].items()) {
    const double ours = squared_error(*ggml_type_from_name(name), values);
    EXPECT_LE(ours, theirs.get<double>()) << name;
    EXPECT_GT(ours, 0.5 * theirs.get<double>())
        << name;  // a format's bits only go so far: less would be a wrong measure
  }
}

TEST(Quantize, KeepsEdgeBlocks) {
  const std::vector<std::vector<float>> cases = {std::vector<float>(256, 0.0F), std::vector<float>(256, 1.0F),
                                                 std::vector<float>(256, -3.0F), std::vector<float>(256, 1e-40F), [] {
                                                   std::vector<float> one(256, 0.0F);
                                                   one[255] = -7.0F;
                                                   return one;
                                                 }()};
  for (const GgmlType type : {GgmlType::q8_0, GgmlType::q4_0, GgmlType::q4_1, GgmlType::q4_k, GgmlType::q6_k}) {
    for (const auto& values : cases) {
      std::vector<float> back(values.size());
      ASSERT_TRUE(dequantize(type, pack(type, values), back).ok());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(back[i], values[i], 7.0 * 0x1p-11) << ggml_type_info(type).name << " " << i;
      }
    }
  }
}

TEST(Quantize, RefusesWhatDoesNotFit) {
  std::vector<float> values(32, 1.0F);
  std::vector<std::byte> bytes(18);
  values[7] = NAN;
  EXPECT_NE(quantize(GgmlType::q4_0, values, bytes).error().line().find("value 7"), std::string::npos);
  values[7] = 1e9F;
  EXPECT_NE(quantize(GgmlType::q4_0, values, bytes).error().line().find("65504"), std::string::npos);
  std::vector<std::byte> halves(64);
  EXPECT_FALSE(quantize(GgmlType::f16, values, halves).ok());
  values[7] = INFINITY;  // kept by the floats, as a mask may hold it
  EXPECT_TRUE(quantize(GgmlType::f16, values, halves).ok());
  EXPECT_TRUE(quantize(GgmlType::bf16, values, halves).ok());
  EXPECT_THROW((void)quantize(GgmlType::q4_0, std::span(values).first(31), bytes), std::logic_error);
  EXPECT_FALSE(quantize(GgmlType::q5_k, values, bytes).ok());
}

}  // namespace
}  // namespace tern::checkpoint
