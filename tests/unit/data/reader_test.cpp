#include "data/reader.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "base/strings.h"
#include "data/source.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

std::vector<RawRow> all_rows(const std::string& path, const ReaderLimits& limits = {}) {
  auto reader = open_rows(path, limits).value();
  std::vector<RawRow> rows;
  RawRow row;
  while (reader->next(row).value()) rows.push_back(row);
  return rows;
}

std::vector<std::string> texts(const std::vector<RawRow>& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows) out.push_back(row.error ? "error" : std::string(trim(row.json)));
  return out;
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 128, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

using Texts = std::vector<std::string>;

TEST(Reader, JsonLinesSkipBlankLinesAndKeepLineNumbers) {
  const test::TempDir scratch;
  const auto rows = all_rows(scratch.write("a.jsonl", "\xEF\xBB\xBF{\"a\":1}\r\n\n  \n{\"a\":2}\nnot json\n{\"a\":3}"));
  EXPECT_EQ(texts(rows), (Texts{"{\"a\":1}", "{\"a\":2}", "not json", "{\"a\":3}"}));
  EXPECT_EQ(rows[1].line, 4U);
  EXPECT_EQ(rows[3].line, 6U);
  EXPECT_EQ(rows[3].ordinal, 3U);
}

TEST(Reader, JsonArrayElementsWithBracketsAndQuotesInStrings) {
  const test::TempDir scratch;
  const auto rows = all_rows(scratch.write("a.json", "\n[ {\"a\":\"],\\\"[\"},\n {\"b\":[1,{\"c\":2}]} ,\n7 ]\n"));
  EXPECT_EQ(texts(rows), (Texts{"{\"a\":\"],\\\"[\"}", "{\"b\":[1,{\"c\":2}]}", "7"}));
  EXPECT_EQ(rows[1].line, 3U);
  EXPECT_TRUE(all_rows(scratch.write("b.json", "[ ]")).empty());
  EXPECT_TRUE(all_rows(scratch.write("c.jsonl", "")).empty());
}

TEST(Reader, TruncatedArrayReportsItsLastElement) {
  const test::TempDir scratch;
  const auto rows = all_rows(scratch.write("a.json", "[{\"a\":1},{\"a\":"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[0].error);
  ASSERT_TRUE(rows[1].error);
  EXPECT_NE(rows[1].error->line().find(":1: expected a JSON array closed by ]"), std::string::npos);
}

TEST(Reader, TextBehindTheArrayIsAnError) {
  const test::TempDir scratch;
  auto reader = open_rows(scratch.write("a.json", "[1] [2]")).value();
  RawRow row;
  EXPECT_FALSE(reader->next(row).ok());
}

TEST(Reader, CsvQuotesSeparatorsAndWidths) {
  const test::TempDir scratch;
  const auto rows =
      all_rows(scratch.write("a.csv", "query,response\r\n\"a, \"\"b\"\"\nline 2\",c\r\n\r\n,\"\"\r\nonly one\r\nx,y"));
  EXPECT_EQ(texts(rows), (Texts{R"({"query":"a, \"b\"\nline 2","response":"c"})", R"({"query":null,"response":""})",
                                "error", R"({"query":"x","response":"y"})"}));
  EXPECT_EQ(rows[0].line, 2U);
  EXPECT_EQ(rows[1].line, 5U);
  EXPECT_NE(rows[2].error->line().find("a.csv:6: expected 2 columns as in the header, found 1"), std::string::npos);
}

TEST(Reader, CsvSeparatorIsTakenFromTheHeader) {
  const test::TempDir scratch;
  EXPECT_EQ(texts(all_rows(scratch.write("a.csv", "q;r\n1,5;2"))), (Texts{R"({"q":"1,5","r":"2"})"}));
  EXPECT_EQ(texts(all_rows(scratch.write("b.tsv", "q\tr\na\tb"))), (Texts{R"({"q":"a","r":"b"})"}));
  EXPECT_FALSE(open_rows(scratch.write("c.csv", "q,q\n1,2")).ok());
  EXPECT_FALSE(open_rows(scratch.write("d.csv", "q,,r\n1,2,3")).ok());
  const auto open_quote = all_rows(scratch.write("e.csv", "q,r\n\"never closed,1\n"));
  ASSERT_EQ(open_quote.size(), 1U);
  EXPECT_TRUE(open_quote[0].error);
}

TEST(Reader, CompressedFilesGiveTheSameRows) {
  const test::TempDir scratch;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += cat("{\"n\":", i, ",\"s\":\"", i % 7, "\"}\n");
  const auto plain = texts(all_rows(scratch.write("a.jsonl", text)));
  ASSERT_EQ(plain.size(), 50000U);
  EXPECT_EQ(texts(all_rows(scratch.write("a.jsonl.gz", gzip(text)))), plain);
  EXPECT_EQ(texts(all_rows(scratch.write("a.jsonl.zst", zstd(text)))), plain);
  // Names do not matter, and members and frames join.
  const std::string_view whole(text);
  const std::string half_a(whole.substr(0, 70001));
  const std::string half_b(whole.substr(70001));
  EXPECT_EQ(texts(all_rows(scratch.write("b", gzip(half_a) + gzip(half_b) + std::string(5, '\0')))), plain);
  EXPECT_EQ(texts(all_rows(scratch.write("c", zstd(half_a) + zstd(half_b)))), plain);
}

TEST(Reader, BrokenCompressionNamesTheFile) {
  const test::TempDir scratch;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += cat("{\"n\":", i * 7919, "}\n");
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    for (const bool cut : {true, false}) {
      std::string bytes = packed;
      if (cut) {
        bytes.resize(bytes.size() / 2);
      } else {
        for (std::size_t i = 40; i < bytes.size(); i += 17) bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
      }
      auto reader = open_rows(scratch.write("x", bytes));
      bool failed = !reader.ok();
      RawRow row;
      while (!failed) {
        const auto more = (*reader)->next(row);
        failed = !more.ok();
        if (failed) {
          EXPECT_NE(more.error().line().find("/x"), std::string::npos);
        }
        if (more.ok() && !*more) break;
      }
      EXPECT_TRUE(failed);
    }
  }
}

TEST(Reader, OverlongRowIsBadAndTheNextOneIsRead) {
  const test::TempDir scratch;
  const std::string lines = cat("{\"a\":1}\n{\"a\":\"", std::string(5000, 'x'), "\"}\n{\"a\":2}\n");
  EXPECT_EQ(texts(all_rows(scratch.write("a.jsonl", lines), {1000})), (Texts{"{\"a\":1}", "error", "{\"a\":2}"}));
  const std::string array = cat("[{\"a\":1},{\"a\":\"", std::string(5000, 'x'), "\"},{\"a\":2}]");
  EXPECT_EQ(texts(all_rows(scratch.write("a.json", array), {1000})), (Texts{"{\"a\":1}", "error", "{\"a\":2}"}));
}

TEST(Reader, TablesSayWhatTheyLack) {
  const test::TempDir scratch;
  const auto line = [&](const std::string& path) { return scratch.line(open_rows(path).error()); };
  EXPECT_EQ(line(scratch.write("a.csv", "q,q\n1,2")),
            "DIR/a.csv:1: expected column names that differ, found \"q\" twice; rename one of the two");
  EXPECT_EQ(line(scratch.write("b.csv", "q,,r\n1,2,3")),
            "DIR/b.csv:1: expected a name for each column, found an empty one; name it");
  const auto table = open_rows(scratch.write("c.csv", cat("q,r\n\"", std::string(5000, 'x'))), {1000}).value();
  RawRow row;
  EXPECT_EQ(scratch.line(table->next(row).error()),
            "DIR/c.csv:2: expected a row of at most 1000 B, found a longer one; look for a quote that is never closed");
  const auto lines = open_rows(scratch.write("d.jsonl", cat("{\"a\":\"", std::string(5000, 'x'))), {1000}).value();
  ASSERT_TRUE(lines->next(row).value());
  ASSERT_TRUE(row.error.has_value());
  EXPECT_EQ(scratch.line(*row.error),
            "DIR/d.jsonl:1: expected a row of at most 1000 B, found a longer one; cut the row into several");
}

TEST(Reader, OtherFilesAreRefused) {
  const test::TempDir scratch;
  const auto parquet = open_rows(scratch.write("a.parquet", "PAR1\x15\x04"));
  ASSERT_FALSE(parquet.ok());
  EXPECT_NE(parquet.error().line().find("Parquet"), std::string::npos);
  EXPECT_FALSE(open_rows(scratch.write("a.bin", std::string("\0\1\2,", 4))).ok());
  EXPECT_FALSE(open_rows(scratch.write("a.txt", "just prose\nand more")).ok());
  EXPECT_FALSE(open_rows((scratch.path() / "absent").string()).ok());
  EXPECT_FALSE(open_rows(scratch.path().string()).ok());
}

}  // namespace
}  // namespace tern::data
