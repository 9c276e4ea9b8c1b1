#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <numeric>

#include "io/json.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/raw_bytes.h"

namespace tern::checkpoint {
namespace {

std::string file(const std::string& header, std::size_t data) {
  test::Raw raw;
  raw.put<std::uint64_t>(header.size());
  return raw.bytes + header + std::string(data, '\x01');
}

std::string error_of_header(const std::string& header, std::size_t data) {
  test::TempDir dir;
  const auto opened = Safetensors::open(dir.write("a.safetensors", file(header, data)));
  return opened.ok() ? "accepted" : opened.error().line();
}

TEST(Safetensors, ReadsAFile) {
  test::TempDir dir;
  const auto opened = Safetensors::open(dir.write(
      "a.safetensors",
      file(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"s":{"dtype":"F4","shape":[2],"data_offsets":[12,13]},"z":{"dtype":"I8","shape":[0],"data_offsets":[13,13]}} )",
          13)));
  ASSERT_TRUE(opened.ok()) << opened.error().line();
  ASSERT_EQ(opened->tensors().size(), 4U);
  EXPECT_EQ(opened->tensors()[0].name, "a");  // in file order
  EXPECT_EQ(opened->metadata().at("format"), "pt");
  const SafetensorsTensor* b = opened->tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(b->dtype->dtype, TERN_F32);
  EXPECT_EQ(b->bytes.size(), 8U);
}

TEST(Safetensors, RefusesBrokenHeaders) {
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7).find("truncated"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9).find("of data"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8).find("12 bytes"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8).find("F33"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8).find("-2"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8).find("8 to 0"),
            std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[2]}})", 8).find("data_offsets"), std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]}})", 8)
                .find("fits"),
            std::string::npos);
  EXPECT_NE(
      error_of_header(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6)
          .find("overlap"),
      std::string::npos);
  EXPECT_NE(error_of_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5).find("gap"),
            std::string::npos);
  EXPECT_NE(
      error_of_header(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1)
          .find("twice"),
      std::string::npos);
  EXPECT_NE(error_of_header(R"([1])", 0).find("starts with {"), std::string::npos);
  EXPECT_NE(error_of_header(R"({"__metadata__":{"a":1}})", 0).find("a string"), std::string::npos);
  EXPECT_EQ(error_of_header("{}", 0), "accepted");
}

TEST(Safetensors, SaysWhichPartOfAHeaderIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a":5})", R"(tensor "a": expected an object, found 5)"},
      {R"({"a":{"dtype":"F32","shape":5,"data_offsets":[0,8]}})",
       R"(tensor "a": field "shape": expected an array, found 5)"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})",
       R"(tensor "a": field "shape[0]": expected a dimension below 2^62, found 9223372036854775808)"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
       R"(tensor "a": field "data_offsets": expected two offsets, found [0])"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,-8]}})",
       R"(tensor "a": field "data_offsets[1]": expected an integer of at least 0, found -8)"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       R"(tensor "a": expected 12 bytes by its shape and dtype, found 8 bytes)"},
      {R"({"__metadata__":5})", "__metadata__: expected an object, found 5"},
      {R"({"__metadata__":{"k":5}})", R"(__metadata__: field "k": expected a string, found 5)"},
  };
  test::TempDir dir;
  const auto path = dir / "a.safetensors";
  for (const auto& [header, says] : cases) {
    dir.write("a.safetensors", file(header, 8));
    EXPECT_EQ(dir.line(Safetensors::open(path).error()),
              std::string("DIR/a.safetensors: ") + says + "; the file is corrupt: fetch it again");
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  test::TempDir dir;
  const std::string whole = file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Safetensors::open(dir.write("a.safetensors", whole.substr(0, size))).ok()) << size;
  }
  test::Raw raw;
  raw.put(~std::uint64_t{0}).pad(1, 100);
  EXPECT_FALSE(Safetensors::open(dir.write("a.safetensors", raw.bytes)).ok());
}

std::vector<std::byte> numbered(std::size_t size, int first) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(static_cast<int>(i) + first);
  return out;
}

// What is written, in any order and in parts, is what is read; shards are as small as asked and each tensor aligned.
TEST(SafetensorsWriter, RoundTripsInShards) {
  for (const std::uint64_t limit : {std::uint64_t{1000}, std::uint64_t{30}, std::uint64_t{1}}) {
    test::TempDir dir;
    const std::vector<TensorSpec> specs = {
        {"a", "BF16", {3}}, {"b", "F32", {2, 2}}, {"c", "U8", {7}}, {"d", "F64", {2}}, {"e", "F32", {0}}};
    SafetensorsWriteOptions options;
    options.max_shard_size = limit;
    auto writer = SafetensorsWriter::create(dir.path(), specs, options);
    ASSERT_TRUE(writer.ok()) << writer.error().line();
    EXPECT_TRUE(writer->write("d", numbered(16, 3)).ok());
    EXPECT_TRUE(writer->write("b", numbered(10, 2)).ok());
    EXPECT_TRUE(writer->write("a", numbered(6, 1)).ok());
    EXPECT_TRUE(writer->write("b", numbered(6, 12)).ok());
    EXPECT_THROW((void)writer->finish(), std::logic_error);  // c is missing
    EXPECT_THROW((void)writer->write("c", numbered(8, 0)), std::logic_error);
    EXPECT_THROW((void)writer->write("x", {}), std::logic_error);
    EXPECT_TRUE(writer->write("c", numbered(7, 4)).ok());
    const auto names = writer->finish();
    ASSERT_TRUE(names.ok()) << names.error().line();
    EXPECT_EQ(names->size(), limit == 1000 ? 1U : limit == 30 ? 3U : 6U);
    const auto read = Safetensors::open_directory(dir.path());
    ASSERT_TRUE(read.ok()) << read.error().line();
    EXPECT_EQ(read->tensors().size(), 5U);
    const auto check = [&](const char* name, const std::vector<std::byte>& expected, std::size_t alignment) {
      const SafetensorsTensor* tensor = read->tensor(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tensor->bytes.begin(), tensor->bytes.end())) << name;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % alignment, 0U) << name;
    };
    check("a", numbered(6, 1), 2);
    check("b", numbered(16, 2), 4);
    check("c", numbered(7, 4), 1);
    check("d", numbered(16, 3), 8);
  }
}

TEST(Safetensors, HoldsTheIndexToTheShards) {
  test::TempDir dir;
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  dir.write("one.safetensors", file(header, 1));
  const auto attempt = [&](const std::string& map) {
    dir.write("model.safetensors.index.json", R"({"weight_map":)" + map + "}");
    const auto opened = Safetensors::open_directory(dir.path());
    return opened.ok() ? std::string("accepted") : opened.error().line();
  };
  EXPECT_EQ(attempt(R"({"a":"one.safetensors"})"), "accepted");
  EXPECT_NE(attempt(R"({"a":"one.safetensors","b":"one.safetensors"})").find("\"b\""), std::string::npos);
  EXPECT_NE(attempt(R"({"a":"../one.safetensors"})").find("inside the directory"), std::string::npos);
  EXPECT_NE(attempt(R"({"a":"/etc/passwd"})").find("inside the directory"), std::string::npos);
  EXPECT_NE(attempt(R"({"a":"two.safetensors"})").find("no such file"), std::string::npos);
  EXPECT_NE(attempt(R"({"a":1})").find("a file name"), std::string::npos);
  EXPECT_NE(attempt(R"([])").find("weight_map"), std::string::npos);
  EXPECT_NE(attempt(R"({})").find("weight_map"), std::string::npos);
  dir.write("two.safetensors", file(header, 1));
  dir.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_EQ(dir.line(Safetensors::open_directory(dir.path()).error()),
            "DIR/two.safetensors: tensor \"a\": expected each tensor once, found it also in another shard; "
            "fetch the checkpoint again");
  dir.write("model.safetensors.index.json", "[]");
  EXPECT_EQ(dir.line(Safetensors::open_directory(dir.path()).error()),
            "DIR/model.safetensors.index.json: expected an object, found []; the file is corrupt: fetch it again");
}

TEST(SafetensorsWriter, HoldsItsCallersToTheContract) {
  test::TempDir dir;
  const std::vector<TensorSpec> bad[] = {
      {{"a", "F33", {1}}}, {{"a", "F32", {1}}, {"a", "F32", {1}}}, {{"a", "F4", {1}}}};
  for (const auto& specs : bad) {
    EXPECT_THROW((void)SafetensorsWriter::create(dir.path(), specs, {}), std::logic_error);
  }
}

TEST(ParseSize, ReadsHuggingFaceUnits) {
  EXPECT_EQ(parse_size("5GB").value(), 5'000'000'000U);
  EXPECT_EQ(parse_size("1.5 MiB").value(), 1'572'864U);
  EXPECT_EQ(parse_size("123").value(), 123U);
  for (const char* text : {"", "GB", "-1GB", "1XB", "0", "1e40", "nan"}) EXPECT_FALSE(parse_size(text).ok()) << text;
}

}  // namespace
}  // namespace tern::checkpoint
