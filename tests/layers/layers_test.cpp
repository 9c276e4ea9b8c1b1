// The folders hold to docs/layers.txt: arrows point down only; and no file is too long. And the checks themselves see
// every kind of mistake.
#include "layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tern::layers {
namespace {

const Table& small() {
  static const Table table = read_table("# a comment\nbase:\nops: base\naccel: ops\nbackends/cpu: base\n");
  return table;
}

std::vector<std::string> found(const std::string& path, const std::string& text) {
  return mistakes(small(), {{path, text}});
}

TEST(Layers, TheTreeHoldsToTheTable) {
  std::ifstream stream(TERN_SOURCE_DIR "/docs/layers.txt");
  std::ostringstream text;
  text << stream.rdbuf();
  const auto table = read_table(text.str());
  const auto sources = read_sources(TERN_SOURCE_DIR);
  ASSERT_GT(sources.size(), 20U) << "the tree was not read";
  for (const auto& line : mistakes(table, sources)) ADD_FAILURE() << line;
}

TEST(Layers, DownIsFineDirectlyAndThrough) {
  EXPECT_TRUE(found("accel/a.h", "#include \"ops/x.h\"\n#include \"base/y.h\"\n#include \"accel/z.h\"\n").empty());
  EXPECT_TRUE(found("backends/cpu/a.cpp", "#include \"tern/accel.h\"\n#include <vector>\n").empty());
}

TEST(Layers, UpIsAMistakeThatNamesItsLine) {
  const auto lines = found("ops/a.h", "#pragma once\n  #  include \"accel/device.h\"\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "ops/a.h:2: includes accel/device.h; ops may include base");
}

TEST(Layers, AngleBracketsHideNothing) { EXPECT_EQ(found("ops/a.h", "#include <accel/device.h>\n").size(), 1U); }

TEST(Layers, ABackendSeesItsOwnRowOnly) {
  EXPECT_EQ(found("backends/cpu/a.cpp", "#include \"ops/x.h\"\n").size(), 1U);
  EXPECT_EQ(found("base/a.cpp", "#include \"backends/cpu/x.h\"\n").size(), 1U);
}

TEST(Layers, AFolderThatTheTableLacksIsAMistake) {
  EXPECT_EQ(found("util/a.h", "").size(), 1U);
  EXPECT_EQ(found("ops/a.h", "#include \"util/a.h\"\n").size(), 1U);
  EXPECT_EQ(found("ops/a.h", "#include \"neighbour.h\"\n").size(), 1U);
}

TEST(Layers, PublicHeadersStandAlone) {
  EXPECT_TRUE(found("include/tern/accel.h", "#include <stdint.h>\n#include \"tern/accel_ops.h\"\n").empty());
  EXPECT_EQ(found("include/tern/accel.h", "#include <stdio.h>\n").size(), 1U);
  EXPECT_EQ(found("include/tern/accel.h", "#include \"base/status.h\"\n").size(), 1U);
  EXPECT_TRUE(found("include/tern/plugin/error.h", "#include <stdio.h>\n#include \"tern/accel.h\"\n").empty());
  EXPECT_EQ(found("include/tern/plugin/error.h", "#include <base/status.h>\n#include <sys/mman.h>\n").size(), 2U);
  EXPECT_EQ(found("include/tern/plugin.h", "#include \"base/status.h\"\n").size(), 1U);
}

std::string lines(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "//\n";
  return out;
}

// Beyond that there is a second concept to name.
TEST(Layers, NoFileIsTooLong) {
  const auto sources = read_sources(TERN_SOURCE_DIR, true);
  const auto is_test = [](const Source& source) { return source.path.starts_with("tests/unit/"); };
  ASSERT_TRUE(std::any_of(sources.begin(), sources.end(), is_test)) << "the tests were not read";
  for (const auto& line : too_long(sources)) ADD_FAILURE() << line;
}

TEST(Layers, ALongFileIsNamed) {
  EXPECT_TRUE(too_long({{"ops/a.h", lines(300)}, {"ops/a.cpp", lines(500)}, {"include/tern/a.h", lines(500)}}).empty());
  EXPECT_EQ(too_long({{"ops/a.h", lines(301)}}).at(0), "ops/a.h: 301 lines, and a header has at most 300");
  EXPECT_EQ(too_long({{"tests/unit/a.cpp", lines(501)}}).at(0),
            "tests/unit/a.cpp: 501 lines, and a source has at most 500");
  EXPECT_EQ(too_long({{"include/tern/a.h", lines(501)}}).size(), 1U);
  EXPECT_TRUE(too_long({{"include/tern/a.h", "/* Generated from a table */\n" + lines(501)}}).empty());
}

TEST(Layers, TheTableMustBeOne) {
  EXPECT_THROW((void)read_table(""), std::runtime_error);
  EXPECT_THROW((void)read_table("base\n"), std::runtime_error);
  EXPECT_THROW((void)read_table("ops: nowhere\n"), std::runtime_error);
  EXPECT_THROW((void)read_table("a: b\nb: a\n"), std::runtime_error);
}

}  // namespace
}  // namespace tern::layers
