// Parquet files against the same rows as JSON lines, as script/golden.d/parquet.py writes both; without Apache Arrow
// the error that says so.
#include "data/parquet.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/row.h"
#include "io/json.h"
#include "tests/support/parsed_json.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

fs::path fixtures() {
  const char* made_here = std::getenv("TERN_PARQUET_FIXTURES");
  return made_here != nullptr ? fs::path(made_here) : fs::path(TERN_TEST_DATA) / "parquet";
}

std::vector<RawRow> read_all(const fs::path& file, FileFormat format) {
  const auto reader = open_rows(file.string()).value();
  EXPECT_EQ(reader->format(), format);
  std::vector<RawRow> rows;
  for (RawRow row; reader->next(row).value();) rows.push_back(row);
  EXPECT_EQ(reader->consumed(), reader->total()) << file;
  return rows;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Parquet, RowsAreThoseOfTheJsonLines) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fixtures())) {
    if (entry.path().extension() != ".parquet" || entry.path().stem() == "too-deep") continue;
    SCOPED_TRACE(entry.path());
    ++files;
    if (!reads_parquet()) {
      const auto refused = open_rows(entry.path().string());
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().line().find("a build without Apache Arrow"), std::string::npos);
      EXPECT_EQ(refused.error().kind, ErrorKind::data);
      continue;
    }
    const auto rows = read_all(entry.path(), FileFormat::parquet);
    const auto want = read_all(fs::path(entry.path()).replace_extension(".jsonl"), FileFormat::jsonl);
    ASSERT_EQ(rows.size(), want.size());
    Normalizer normalizer({});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(test::parsed_json(rows[i].json), test::parsed_json(want[i].json));
      EXPECT_EQ(rows[i].ordinal, i);
      EXPECT_EQ(rows[i].line, want[i].line);
      const auto row = normalizer.row(rows[i], "rows");
      const auto twin = normalizer.row(want[i], "rows");
      ASSERT_EQ(row.ok(), twin.ok());
      if (row.ok()) {
        EXPECT_EQ(test::parsed_json(to_json(*row)), test::parsed_json(to_json(*twin)));
      } else {
        EXPECT_EQ(row.error().line(), twin.error().line());
      }
    }
  }
  EXPECT_GE(files, 4U);
}

TEST(Parquet, ADamagedFileIsAnError) {
  if (!reads_parquet()) GTEST_SKIP() << "built without Apache Arrow";
  const test::TempDir scratch;
  const std::string whole = bytes_of(fixtures() / "messages-snappy.parquet");
  for (const std::size_t kept : {std::size_t{4}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    const auto cut = open_rows(scratch.write("cut.parquet", whole.substr(0, kept)));
    ASSERT_FALSE(cut.ok()) << kept;
    EXPECT_EQ(cut.error().line().find('\n'), std::string::npos);
  }
  const auto deep = open_rows((fixtures() / "too-deep.parquet").string());
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().line().find("too deeply nested"), std::string::npos) << deep.error().line();
  std::string scribbled = whole;  // the pages, not the footer
  for (std::size_t i = 4; i < whole.size() / 2; ++i) scribbled[i] = static_cast<char>(scribbled[i] ^ 0x5A);
  const auto reader = open_rows(scratch.write("scribbled.parquet", scribbled));
  if (!reader.ok()) return;
  Result<bool> more = true;
  for (RawRow row; more.ok() && *more;) more = (*reader)->next(row);
  EXPECT_FALSE(more.ok());
}

TEST(Parquet, ARowBeyondTheLimitIsABadRow) {
  if (!reads_parquet()) GTEST_SKIP() << "built without Apache Arrow";
  const auto reader = open_rows((fixtures() / "messages-zstd.parquet").string(), {100}).value();
  RawRow row;
  ASSERT_TRUE(reader->next(row).value());
  ASSERT_TRUE(row.error.has_value());
  EXPECT_NE(row.error->line().find("messages-zstd.parquet:1: "), std::string::npos);
}

}  // namespace
}  // namespace tern::data
