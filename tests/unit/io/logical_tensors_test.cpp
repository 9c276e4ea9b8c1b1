#include "io/logical_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "temp_dir.h"

namespace tern::io {
namespace {

const LogicalTensor* find(const std::vector<LogicalTensor>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

class Quantized : public testing::TestWithParam<const char*> {};

// Broken if packing, order of nibbles, zero points, scales, groups or permutation of a method are misread. The bound is
// the rounding of the reference's own products in fp32.
TEST_P(Quantized, GivesWhatTheFormulaGives) {
  const std::filesystem::path directory = std::filesystem::path(TERN_TEST_DATA "/io/quantized") / GetParam();
  const auto source = CheckpointSource::open(directory);
  ASSERT_TRUE(source.ok()) << source.error().line();
  const auto all = logical_tensors(*source);
  ASSERT_TRUE(all.ok()) << all.error().line();
  const auto expected = Safetensors::open(directory / "expected.safetensors").value();
  EXPECT_EQ(all->size(), expected.tensors().size());
  for (const SafetensorsTensor& wanted : expected.tensors()) {
    const LogicalTensor* tensor = find(*all, wanted.name);
    ASSERT_NE(tensor, nullptr) << wanted.name;
    ASSERT_EQ(tensor->shape, wanted.shape);
    const std::int64_t columns = tensor->shape.back();
    const auto rows = static_cast<std::int64_t>(*element_count(tensor->shape)) / columns;
    std::vector<float> want(wanted.bytes.size() / 4);
    std::memcpy(want.data(), wanted.bytes.data(), wanted.bytes.size());
    std::vector<float> got(want.size());
    const auto status = read_rows_f32(*tensor, 0, rows, got);
    ASSERT_TRUE(status.ok()) << status.error().line();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_FLOAT_EQ(got[i], want[i]) << wanted.name << " " << i;
    // A part of the rows is that part of the whole.
    std::vector<float> part(static_cast<std::size_t>(columns));
    ASSERT_TRUE(read_rows_f32(*tensor, rows - 1, 1, part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), got.end() - columns));
    EXPECT_FALSE(read_rows_f32(*tensor, rows, 1, part).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Quantized,
                         testing::Values("fp8", "awq", "gptq2", "gptq3", "gptq4", "gptq8", "compressed", "nf4",
                                         "mxfp4"),
                         [](const auto& info) { return std::string(info.param); });

void copy_with_config(const TempDir& dir, const char* method, const std::string& config) {
  std::filesystem::copy(std::filesystem::path(TERN_TEST_DATA "/io/quantized") / method / "model.safetensors",
                        dir / "model.safetensors");
  dir.write("config.json", config);
}

std::string error_of(const char* method, const std::string& config) {
  TempDir dir;
  copy_with_config(dir, method, config);
  const auto source = CheckpointSource::open(dir.path()).value();
  const auto all = logical_tensors(source);
  return all.ok() ? "accepted" : all.error().line();
}

TEST(LogicalTensors, RefusesSettingsThatDoNotFitThePlanes) {
  EXPECT_NE(error_of("fp8", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})")
                .find("shape [1, 1]"),
            std::string::npos);
  EXPECT_NE(
      error_of("fp8", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[0,1]}})").find("positive"),
      std::string::npos);
  EXPECT_NE(error_of("awq", R"({})").find("gptq or awq"), std::string::npos);
  EXPECT_NE(error_of("awq", R"({"quantization_config":{"quant_method":"awq","bits":8}})").find("4 bits"),
            std::string::npos);
  EXPECT_NE(error_of("gptq4", R"({"quantization_config":{"quant_method":"gptq","bits":3}})").find("whole words"),
            std::string::npos);
  EXPECT_NE(error_of("gptq4", R"({"quantization_config":{"quant_method":"gptq","bits":8}})").find("shape"),
            std::string::npos);
  EXPECT_NE(error_of("fp8", R"({"quantization_config":{"quant_method":"hqq"}})").find("hqq"), std::string::npos);
}

}  // namespace
}  // namespace tern::io
