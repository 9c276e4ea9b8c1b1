#include "checkpoint/checkpoint_source.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "checkpoint/fp8.h"
#include "io/json.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/raw_bytes.h"

namespace tern::checkpoint {
namespace {

std::string safetensors_file(const std::string& header, const std::string& data) {
  test::Raw raw;
  raw.put<std::uint64_t>(header.size());
  return raw.bytes + header + data;
}

std::string gguf_file(std::uint32_t type, std::uint64_t columns, const std::string& data) {
  test::Raw raw;
  raw.put<std::uint32_t>(0x46554747).put<std::uint32_t>(2).put<std::uint64_t>(1).put<std::uint64_t>(0);
  raw.text("blk.0.attn_q.weight")
      .put<std::uint32_t>(2)
      .put(columns)
      .put<std::uint64_t>(1)
      .put(type)
      .put<std::uint64_t>(0);
  raw.pad(32);
  return raw.bytes + data;
}

TEST(CheckpointSource, ShowsAHuggingFaceDirectory) {
  test::TempDir dir;
  test::Raw data;
  data.put<float>(1.5F).put<float>(-2.0F).put<std::uint16_t>(0x3f80).put<std::uint16_t>(0x3c00);
  dir.write(
      "model.safetensors",
      safetensors_file(
          R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},"c":{"dtype":"F16","shape":[],"data_offsets":[10,12]}})",
          data.bytes));
  dir.write("config.json", R"({"model_type":"llama"})");
  const auto source = CheckpointSource::open(dir.path());
  ASSERT_TRUE(source.ok()) << source.error().line();
  EXPECT_EQ(source->kind(), CheckpointSource::Kind::hugging_face);
  EXPECT_EQ((*source->config())["model_type"], "llama");
  const auto a = source->require("a").value();
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(a->storage.dtype, TERN_F32);
  std::vector<float> values(2);
  ASSERT_TRUE(source->read_f32(*a, values).ok());
  EXPECT_EQ(values, (std::vector<float>{1.5F, -2.0F}));
  values.resize(1);
  ASSERT_TRUE(source->read_f32(*source->find("b"), values).ok());
  EXPECT_EQ(values[0], 1.0F);
  ASSERT_TRUE(source->read_f32(*source->find("c"), values).ok());
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_THROW((void)source->read_f32(*a, values), std::logic_error);
  EXPECT_THROW((void)to_f32(TERN_F32, a->bytes, values), std::logic_error);
  EXPECT_FALSE(source->require("zzz").ok());
}

TEST(CheckpointSource, ShowsAGgufFileAndFindsItInADirectory) {
  test::TempDir dir;
  std::string block("\x00\x3c", 2);  // d = 1, all q = 0 - 8
  block += std::string(16, '\0');
  const auto file = dir.write("m.gguf", gguf_file(2, 32, block));
  for (const std::filesystem::path& path : {std::filesystem::path(file), dir.path()}) {
    const auto source = CheckpointSource::open(path);
    ASSERT_TRUE(source.ok()) << source.error().line();
    EXPECT_EQ(source->kind(), CheckpointSource::Kind::gguf);
    EXPECT_NE(source->gguf(), nullptr);
    const SourceTensor* tensor = source->find("blk.0.attn_q.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->storage.block, GgmlType::q4_0);
    EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{1, 32}));
    std::vector<float> values(32);
    ASSERT_TRUE(source->read_f32(*tensor, values).ok());
    EXPECT_EQ(values, std::vector<float>(32, -8.0F));
    EXPECT_NE(source->require("blk.0.attn_k.weight").error().line().find("blk.0.attn_q.weight"), std::string::npos);
  }
  dir.write("n.gguf", gguf_file(2, 32, block));
  EXPECT_NE(CheckpointSource::open(dir.path()).error().line().find("2 GGUF files"), std::string::npos);
  // A type that cannot be expanded is named with its tensor.
  dir.write("k.gguf", gguf_file(9, 32, std::string(40, '\0')));
  const auto source = CheckpointSource::open(dir / "k.gguf");
  std::vector<float> values(32);
  const std::string line = source->read_f32(source->tensors()[0], values).error().line();
  EXPECT_NE(line.find("Q8_1"), std::string::npos) << line;
  EXPECT_NE(line.find("blk.0.attn_q.weight"), std::string::npos) << line;
}

TEST(CheckpointSource, SaysWhatADirectoryLacks) {
  test::TempDir dir;
  EXPECT_NE(CheckpointSource::open(dir.path()).error().line().find("model.safetensors"), std::string::npos);
  dir.write("pytorch_model.bin", "x");
  EXPECT_NE(CheckpointSource::open(dir.path()).error().line().find("pickles"), std::string::npos);
  EXPECT_NE(CheckpointSource::open(dir / "absent").error().line().find("no such file"), std::string::npos);
}

TEST(CheckpointSource, NamesTheConfigurationAndTheDtypeThatItCannotRead) {
  test::TempDir dir;
  dir.write("model.safetensors",
            safetensors_file(R"({"a":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}})", "x"));
  const auto source = CheckpointSource::open(dir.path()).value();
  std::vector<float> values(1);
  EXPECT_EQ(dir.line(source.read_f32(source.tensors()[0], values).error()),
            "DIR: tensor \"a\": expected a dtype that can be read as numbers, found F8_E8M0; convert the file to BF16");
  EXPECT_EQ(dir.line(source.require("qqqqqqqq").error()),
            "DIR: tensor \"qqqqqqqq\": expected such a tensor, found none; `tern inspect` lists those there are");
  dir.write("config.json", "[]");
  EXPECT_EQ(dir.line(CheckpointSource::open(dir.path()).error()),
            "DIR/config.json: expected an object, found []; restore the model's config.json");
}

// OCP 8-bit Floating Point Specification, table 2.
TEST(Fp8, MatchesTheSpecification) {
  EXPECT_EQ(f8_e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(f8_e4m3_to_float(0xfe), -448.0F);
  EXPECT_EQ(f8_e4m3_to_float(0x08), 0x1p-6F);
  EXPECT_EQ(f8_e4m3_to_float(0x01), 0x1p-9F);
  EXPECT_EQ(f8_e4m3_to_float(0x07), 0.875F * 0x1p-6F);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0x7f)));
  EXPECT_TRUE(std::signbit(f8_e4m3_to_float(0x80)));
  EXPECT_EQ(f8_e5m2_to_float(0x7b), 57344.0F);
  EXPECT_EQ(f8_e5m2_to_float(0x01), 0x1p-16F);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_float(0x7c)));
  EXPECT_EQ(e8m0_to_float(127), 1.0F);
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127F);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

}  // namespace
}  // namespace tern::checkpoint
