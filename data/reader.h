// Rows of a data file as JSON objects, one at a time: JSON lines, a JSON array of objects, CSV (RFC 4180; its rows
// become objects of strings), or Parquet (parquet.h). The format is taken from the content, and from the name only
// where the content does not tell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::data {

enum class FileFormat { jsonl, json_array, csv, parquet };
[[nodiscard]] std::string_view name(FileFormat format);

// A row as the file frames it. `error` is set where it could not be framed (a CSV row of the wrong width, an over-long
// line); `json` is then empty and the reader goes on behind it where it can.
struct RawRow {
  std::uint64_t ordinal = 0;  // place in the file among its rows, bad ones included, from 0
  std::uint64_t line = 0;     // line on which the row starts, from 1
  std::string json;
  std::optional<Error> error;
};

struct ReaderLimits {
  std::size_t row_bytes = std::size_t{64} << 20;  // a longer row is a bad row: memory stays bounded
};

class RowReader {
 public:
  virtual ~RowReader() = default;

  // Takes the next row; false at the end. An Error is the file's (I/O, a broken compressed stream), not a row's.
  virtual Result<bool> next(RawRow& row) = 0;

  [[nodiscard]] virtual FileFormat format() const = 0;
  [[nodiscard]] virtual std::uint64_t consumed() const = 0;  // for progress: bytes of the file read so far
  [[nodiscard]] virtual std::uint64_t total() const = 0;     // of so many
};

[[nodiscard]] Result<std::unique_ptr<RowReader>> open_rows(const std::string& path, const ReaderLimits& limits = {});

// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 pass as they are.
void append_json_string(std::string& out, std::string_view text);

}  // namespace tern::data
