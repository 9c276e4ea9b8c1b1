#include "checkpoint/gguf_writer.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace tern::checkpoint {
namespace {

// What is written is what is read, metadata of every kind included; writing that again gives the same bytes.
TEST(GgufWriter, RoundTrips) {
  test::TempDir dir;
  GgufMetadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("flag", true);
  metadata.set("n", std::uint32_t{7});
  metadata.set("minus", std::int32_t{-7});
  metadata.set("big", std::uint64_t{1} << 40);
  metadata.set("theta", 1.5F);
  metadata.set("words", std::vector<std::string>{"a", "", "ccc"});
  metadata.set("ids", std::vector<std::int32_t>{1, -2});
  metadata.set("scores", std::vector<float>{0.5F});
  metadata.set("n", std::uint32_t{8});
  metadata.set("gone", "x");
  metadata.remove("gone");
  const std::vector<GgufTensorSpec> specs = {
      {"a", GgmlType::f32, {3}}, {"b", GgmlType::q8_0, {2, 32}}, {"c", GgmlType::f16, {0}}};
  auto writer = GgufWriter::create(dir / "a.gguf", metadata, specs);
  ASSERT_TRUE(writer.ok()) << writer.error().line();
  std::vector<std::byte> data(68);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_TRUE(writer->write("b", std::span(data).first(40)).ok());
  EXPECT_TRUE(writer->write("a", std::span(data).first(12)).ok());
  EXPECT_THROW((void)writer->finish(), std::logic_error);
  EXPECT_THROW((void)writer->write("b", data), std::logic_error);
  EXPECT_THROW((void)writer->write("z", data), std::logic_error);
  EXPECT_TRUE(writer->write("b", std::span(data).subspan(40)).ok());
  ASSERT_TRUE(writer->finish().ok());

  const auto read = Gguf::open(dir / "a.gguf");
  ASSERT_TRUE(read.ok()) << read.error().line();
  EXPECT_EQ(read->version(), 3U);
  EXPECT_EQ(read->metadata().size(), 9U);
  EXPECT_EQ(read->integer("n").value(), 8);
  EXPECT_EQ(read->texts("words").value(), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(read->tensor("b")->shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_TRUE(std::equal(data.begin(), data.end(), read->tensor("b")->bytes.begin()));

  GgufMetadata again;
  for (const auto& [key, value] : read->metadata()) again.set(key, value);
  auto second = GgufWriter::create(dir / "b.gguf", again, specs).value();
  for (const GgufTensor& tensor : read->tensors()) EXPECT_TRUE(second.write(tensor.name, tensor.bytes).ok());
  ASSERT_TRUE(second.finish().ok());
  EXPECT_EQ(dir.read("a.gguf"), dir.read("b.gguf"));
}

TEST(GgufWriter, RefusesWhatAFileCannotHold) {
  test::TempDir dir;
  const auto create = [&](const std::vector<GgufTensorSpec>& specs) { (void)GgufWriter::create(dir / "a", {}, specs); };
  EXPECT_THROW(create({{"a", GgmlType::q8_0, {33}}}), std::logic_error);
  EXPECT_THROW(create({{"a", GgmlType::f32, {1, 1, 1, 1, 1}}}), std::logic_error);
  EXPECT_THROW(create({{"a", GgmlType::f32, {1}}, {"a", GgmlType::f32, {1}}}), std::logic_error);
  EXPECT_FALSE(GgufWriter::create(dir / "absent/a", {}, {}).ok());
}

}  // namespace
}  // namespace tern::checkpoint
