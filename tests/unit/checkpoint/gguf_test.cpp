#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/temp_dir.h"
#include "tests/unit/raw_bytes.h"

namespace tern::checkpoint {
namespace {

enum : std::uint32_t { kU8 = 0, kI32 = 5, kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10 };

struct Parts {
  std::uint32_t magic = 0x46554747;
  std::uint32_t version = 3;
  std::uint64_t tensors = 1;
  std::uint64_t keys = 0;
  std::function<void(test::Raw&)> metadata = [](test::Raw&) {};
  std::string name = "w";
  std::vector<std::uint64_t> shape = {32, 2};  // innermost first, as files have it
  std::uint32_t dimensions = 2;
  std::uint32_t type = 2;  // Q4_0
  std::uint64_t offset = 0;
  std::size_t alignment = 32;
  std::size_t data = 36;
};

std::string file(const Parts& parts) {
  test::Raw raw;
  raw.put(parts.magic).put(parts.version).put(parts.tensors).put(parts.keys);
  parts.metadata(raw);
  if (parts.tensors != 0) {
    raw.text(parts.name).put(parts.dimensions);
    for (auto size : parts.shape) raw.put(size);
    raw.put(parts.type).put(parts.offset);
  }
  return raw.pad(parts.alignment, parts.data).bytes;
}

TEST(Gguf, ReadsEveryKindOfValueAndTheShapeOutermostFirst) {
  test::TempDir dir;
  Parts parts;
  parts.keys = 7;
  parts.metadata = [](test::Raw& raw) {
    raw.text("general.architecture").put<std::uint32_t>(kString).text("llama");
    raw.text("n").put<std::uint32_t>(kU64).put<std::uint64_t>(7);
    raw.text("minus").put<std::uint32_t>(kI32).put<std::int32_t>(-3);
    raw.text("theta").put<std::uint32_t>(kF32).put<float>(1.5F);
    raw.text("flag").put<std::uint32_t>(kBool).put<std::uint8_t>(1);
    raw.text("words").put<std::uint32_t>(kArray).put<std::uint32_t>(kString).put<std::uint64_t>(2).text("a").text("");
    raw.text("ids")
        .put<std::uint32_t>(kArray)
        .put<std::uint32_t>(kI32)
        .put<std::uint64_t>(2)
        .put<std::int32_t>(-1)
        .put<std::int32_t>(5);
  };
  const auto opened = Gguf::open(dir.write("a.gguf", file(parts)));
  ASSERT_TRUE(opened.ok()) << opened.error().line();
  const Gguf& gguf = *opened;
  EXPECT_EQ(gguf.text("general.architecture").value(), "llama");
  EXPECT_EQ(gguf.integer("n").value(), 7);
  EXPECT_EQ(gguf.integer("minus").value(), -3);
  EXPECT_EQ(gguf.number("theta").value(), 1.5);
  EXPECT_EQ(gguf.number("n").value(), 7);
  EXPECT_TRUE(gguf.boolean("flag").value());
  EXPECT_EQ(gguf.texts("words").value(), (std::vector<std::string_view>{"a", ""}));
  EXPECT_EQ(gguf.find("ids")->integers().value(), (std::vector<std::int64_t>{-1, 5}));
  EXPECT_EQ(gguf.find("ids")->numbers().value(), (std::vector<double>{-1, 5}));
  EXPECT_EQ(gguf.integer_or("absent", 9).value(), 9);
  const GgufTensor* tensor = gguf.tensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(tensor->bytes.size(), 36U);
  EXPECT_EQ(gguf.tensor("v"), nullptr);

  // A value of another kind is an error that says what is there, also where a default was given.
  const auto wrong = gguf.integer_or("theta", 1);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().line().find("f32 1.5"), std::string::npos) << wrong.error().line();
  EXPECT_NE(gguf.text("absent").error().line().find("no such key"), std::string::npos);
}

struct Broken {
  const char* name;
  std::function<void(Parts&)> change;
  const char* says;
};

class GgufBroken : public testing::TestWithParam<Broken> {};

// Broken if a malformed file is accepted, or refused for a reason that does not name the fault.
TEST_P(GgufBroken, IsRefusedWithItsReason) {
  test::TempDir dir;
  Parts parts;
  GetParam().change(parts);
  const auto opened = Gguf::open(dir.write("a.gguf", file(parts)));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::data);
  EXPECT_NE(opened.error().line().find(GetParam().says), std::string::npos) << opened.error().line();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, GgufBroken,
    testing::Values(Broken{"magic", [](Parts& p) { p.magic = 1; }, "a GGUF file"},
                    Broken{"version_1", [](Parts& p) { p.version = 1; }, "version 1"},
                    Broken{"version_4", [](Parts& p) { p.version = 4; }, "version 4"},
                    Broken{"big_endian", [](Parts& p) { p.version = 0x03000000; }, "big-endian"},
                    Broken{"many_tensors", [](Parts& p) { p.tensors = std::uint64_t{1} << 60; }, "tensors"},
                    Broken{"many_keys", [](Parts& p) { p.keys = ~std::uint64_t{0}; }, "metadata keys"},
                    Broken{"many_dimensions", [](Parts& p) { p.dimensions = 5; }, "at most 4 dimensions"},
                    Broken{"ragged_row",
                           [](Parts& p) {
                             p.shape = {33, 2};
                           },
                           "whole Q4_0 blocks"},
                    Broken{"huge_shape",
                           [](Parts& p) {
                             p.shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
                           },
                           "2^62"},
                    Broken{"negative_shape",
                           [](Parts& p) {
                             p.shape = {~std::uint64_t{0}, 2};
                           },
                           "below 2^63"},
                    Broken{"no_such_type", [](Parts& p) { p.type = 31; }, "type 31"},
                    Broken{"unaligned", [](Parts& p) { p.offset = 8; }, "multiple of 32"},
                    Broken{"offset_past_end", [](Parts& p) { p.offset = std::uint64_t{1} << 62; }, "truncated"},
                    Broken{"short_data", [](Parts& p) { p.data = 35; }, "truncated"},
                    Broken{"long_name",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.put(~std::uint64_t{0});
                               r.pad(1, 30);
                             };
                           },
                           "truncated"},
                    Broken{"key_twice",
                           [](Parts& p) {
                             p.keys = 2;
                             p.metadata = [](test::Raw& r) {
                               for (int i = 0; i < 2; ++i) r.text("k").put<std::uint32_t>(kU32).put<std::uint32_t>(1);
                             };
                           },
                           "twice"},
                    Broken{"alignment_zero",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("general.alignment").put<std::uint32_t>(kU32).put<std::uint32_t>(0);
                             };
                           },
                           "power of two"},
                    Broken{"alignment_odd",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("general.alignment").put<std::uint32_t>(kU32).put<std::uint32_t>(48);
                             };
                           },
                           "power of two"},
                    Broken{"value_type",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("k").put<std::uint32_t>(13).put<std::uint32_t>(0);
                             };
                           },
                           "0 to 12"},
                    Broken{"boolean",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("k").put<std::uint32_t>(kBool).put<std::uint8_t>(2);
                             };
                           },
                           "0 or 1"},
                    Broken{"nested_array",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("k").put<std::uint32_t>(kArray).put<std::uint32_t>(kArray).put<std::uint64_t>(1);
                             };
                           },
                           "array of arrays"},
                    Broken{"huge_array",
                           [](Parts& p) {
                             p.keys = 1, p.metadata = [](test::Raw& r) {
                               r.text("k").put<std::uint32_t>(kArray).put<std::uint32_t>(kF32).put(~std::uint64_t{0} /
                                                                                                   2);
                             };
                           },
                           "an array of"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Gguf, RefusesNamesTwiceAndOverlaps) {
  test::TempDir dir;
  for (const bool same_name : {true, false}) {
    test::Raw raw;
    raw.put<std::uint32_t>(0x46554747).put<std::uint32_t>(3).put<std::uint64_t>(2).put<std::uint64_t>(0);
    for (int i = 0; i < 2; ++i) {
      raw.text(same_name ? "w" : std::string(1, static_cast<char>('a' + i)))
          .put<std::uint32_t>(1)
          .put<std::uint64_t>(16);
      raw.put<std::uint32_t>(0).put<std::uint64_t>(same_name ? static_cast<std::uint64_t>(i) * 64
                                                             : static_cast<std::uint64_t>(i) * 32);
    }
    const auto opened = Gguf::open(dir.write("a.gguf", raw.pad(32, 128).bytes));
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().line().find(same_name ? "twice" : "overlap"), std::string::npos) << opened.error().line();
  }
}

// Every prefix of a sound file is refused, and no prefix crashes.
TEST(Gguf, RefusesEveryTruncation) {
  test::TempDir dir;
  Parts parts;
  parts.keys = 2;
  parts.metadata = [](test::Raw& raw) {
    raw.text("general.architecture").put<std::uint32_t>(kString).text("llama");
    raw.text("words").put<std::uint32_t>(kArray).put<std::uint32_t>(kString).put<std::uint64_t>(2).text("a").text("bc");
  };
  const std::string whole = file(parts);
  ASSERT_TRUE(Gguf::open(dir.write("a.gguf", whole)).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Gguf::open(dir.write("a.gguf", whole.substr(0, size))).ok()) << size;
  }
}

std::string split(int number, int count, const std::string& name, int total) {
  Parts parts;
  parts.keys = 3;
  parts.name = name;
  parts.metadata = [=](test::Raw& raw) {
    raw.text("split.no").put<std::uint32_t>(2).put<std::uint16_t>(static_cast<std::uint16_t>(number));
    raw.text("split.count").put<std::uint32_t>(2).put<std::uint16_t>(static_cast<std::uint16_t>(count));
    raw.text("split.tensors.count").put<std::uint32_t>(kI32).put<std::int32_t>(total);
  };
  return file(parts);
}

TEST(Gguf, JoinsSplitFiles) {
  test::TempDir dir;
  const auto first = dir.write("m-00001-of-00002.gguf", split(0, 2, "a", 2));
  ASSERT_FALSE(Gguf::open(first).ok());  // its second is absent
  dir.write("m-00002-of-00002.gguf", split(1, 2, "b", 2));
  const auto opened = Gguf::open(first);
  ASSERT_TRUE(opened.ok()) << opened.error().line();
  EXPECT_EQ(opened->files().size(), 2U);
  ASSERT_NE(opened->tensor("b"), nullptr);
  EXPECT_EQ(opened->tensor("b")->file, 1U);

  const auto second = Gguf::open(dir / "m-00002-of-00002.gguf");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().line().find("m-00001-of-00002.gguf"), std::string::npos) << second.error().line();
  dir.write("m-00002-of-00002.gguf", split(0, 2, "b", 2));
  EXPECT_FALSE(Gguf::open(first).ok());
  dir.write("m-00002-of-00002.gguf", split(1, 2, "a", 2));
  EXPECT_FALSE(Gguf::open(first).ok());
  dir.write("m-00002-of-00002.gguf", split(1, 2, "b", 2));
  dir.write("m-00001-of-00002.gguf", split(0, 2, "a", 3));
  EXPECT_EQ(
      dir.line(Gguf::open(first).error()),
      "DIR/m-00001-of-00002.gguf: expected 3 tensors in the split set, found 2; fetch the split files again: some "
      "are of another set");
  for (const char* name : {"m.gguf", "m-00001-of-00003.gguf"}) {
    dir.write(name, split(0, 2, "a", 2));
    EXPECT_EQ(
        dir.line(Gguf::open(dir / name).error()),
        std::string("DIR/") + name +
            ": expected a name that ends in -00001-of-00002.gguf, as its key split.count says, found another name; "
            "give the split files the names they had");
  }
}

}  // namespace
}  // namespace tern::checkpoint
