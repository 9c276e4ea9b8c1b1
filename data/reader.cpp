#include "data/reader.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "base/strings.h"
#include "data/parquet.h"
#include "data/source.h"

namespace tern::data {
namespace {

// Buffered bytes with the line number of the next one.
class Cursor {
 public:
  Cursor(std::string path, std::unique_ptr<ByteSource> source) : path_(std::move(path)), source_(std::move(source)) {}

  // The unread bytes in hand; reads more where there are none. Empty at the end. Throws Failure.
  std::string_view window() {
    if (position_ == buffer_.size()) {
      buffer_.resize(kSize);
      buffer_.resize(source_->read(buffer_).value());
      position_ = 0;
    }
    return std::string_view(buffer_).substr(position_);
  }

  // At least `count` unread bytes where the file has them: only before anything else is taken.
  std::string_view head(std::size_t count) {
    window();
    while (buffer_.size() - position_ < count) {
      std::string more(kSize, '\0');
      more.resize(source_->read(more).value());
      if (more.empty()) break;
      buffer_ += more;
    }
    return std::string_view(buffer_).substr(position_);
  }

  void advance(std::size_t count) {
    line_ +=
        static_cast<std::uint64_t>(std::count(buffer_.begin() + static_cast<std::ptrdiff_t>(position_),
                                              buffer_.begin() + static_cast<std::ptrdiff_t>(position_ + count), '\n'));
    position_ += count;
  }

  // The next byte without taking it, -1 at the end.
  int peek() {
    if (position_ < buffer_.size()) return static_cast<unsigned char>(buffer_[position_]);
    const auto rest = window();
    return rest.empty() ? -1 : static_cast<unsigned char>(rest.front());
  }
  void skip() {
    if (buffer_[position_++] == '\n') ++line_;
  }
  void skip_space() {
    for (int c = peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = peek()) skip();
  }

  [[nodiscard]] std::uint64_t line() const { return line_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const ByteSource& source() const { return *source_; }
  [[nodiscard]] std::string place(std::uint64_t line) const { return cat(path_, ":", line); }

 private:
  static constexpr std::size_t kSize = std::size_t{1} << 18;
  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::size_t position_ = 0;
  std::uint64_t line_ = 1;
};

class CursorReader : public RowReader {
 public:
  CursorReader(Cursor cursor, ReaderLimits limits) : cursor_(std::move(cursor)), limits_(limits) {}
  [[nodiscard]] std::uint64_t consumed() const override { return cursor_.source().consumed(); }
  [[nodiscard]] std::uint64_t total() const override { return cursor_.source().total(); }

  Result<bool> next(RawRow& row) override {
    return catching([&] {
      row.json.clear();
      row.error.reset();
      const bool more = take(row);
      if (more) row.ordinal = ordinal_++;
      if (row.error) row.json.clear();
      return more;
    });
  }

 protected:
  virtual bool take(RawRow& row) = 0;
  [[nodiscard]] Error too_long(std::uint64_t line) const {
    return data_error(cursor_.place(line), cat("a row of at most ", human_bytes(limits_.row_bytes)), "a longer one",
                      "cut the row into several");
  }

  Cursor cursor_;
  ReaderLimits limits_;

 private:
  std::uint64_t ordinal_ = 0;
};

class JsonLines final : public CursorReader {
 public:
  using CursorReader::CursorReader;
  [[nodiscard]] FileFormat format() const override { return FileFormat::jsonl; }

 private:
  bool take(RawRow& row) override {
    while (true) {
      row.line = cursor_.line();
      row.json.clear();
      bool any = false;
      bool over = false;
      for (auto rest = cursor_.window(); !rest.empty(); rest = cursor_.window()) {
        any = true;
        const std::size_t end = rest.find('\n');
        const std::size_t part = std::min(end, rest.size());
        over = over || row.json.size() + part > limits_.row_bytes;
        if (!over) row.json.append(rest.substr(0, part));
        cursor_.advance(end == std::string_view::npos ? part : part + 1);
        if (end != std::string_view::npos) break;
      }
      if (over) row.error = too_long(row.line);
      if (!any) return false;
      if (over || !trim(row.json).empty()) return true;
    }
  }
};

class JsonArray final : public CursorReader {
 public:
  using CursorReader::CursorReader;
  [[nodiscard]] FileFormat format() const override { return FileFormat::json_array; }

 private:
  bool take(RawRow& row) override {
    if (done_) return false;
    cursor_.skip_space();
    if (!opened_) {
      cursor_.skip();  // the bracket that detection saw
      opened_ = true;
      cursor_.skip_space();
      if (cursor_.peek() == ']') return finish(row);
    }
    row.line = cursor_.line();
    const bool over = element(row);
    if (over) row.error = too_long(row.line);
    const int next = cursor_.peek();
    if (next < 0) {
      done_ = true;
      row.error = data_error(cursor_.place(row.line), "a JSON array closed by ]", "the end of the file in this element",
                             "copy the file again");
      return true;
    }
    cursor_.skip();
    if (next == ']') {
      done_ = true;
      check_tail();
    }
    return true;
  }

  bool finish(RawRow&) {
    cursor_.skip();
    done_ = true;
    check_tail();
    return false;
  }

  void check_tail() {
    cursor_.skip_space();
    if (cursor_.peek() >= 0) {
      throw Failure(data_error(cursor_.place(cursor_.line()), "nothing after the array's closing ]", "more text",
                               "make the file one JSON array or JSON lines"));
    }
  }

  // Copies up to the comma or bracket that ends this element. True where it is longer than the limit.
  bool element(RawRow& row) {
    int depth = 0;
    bool in_string = false;
    bool escaped = false;
    bool over = false;
    for (auto rest = cursor_.window(); !rest.empty(); rest = cursor_.window()) {
      std::size_t used = 0;
      bool end = false;
      for (; used < rest.size(); ++used) {
        const char c = rest[used];
        if (in_string) {
          if (escaped) {
            escaped = false;
          } else if (c == '\\') {
            escaped = true;
          } else if (c == '"') {
            in_string = false;
          }
        } else if (c == '"') {
          in_string = true;
        } else if (depth == 0 && (c == ',' || c == ']')) {
          end = true;
          break;
        } else if (c == '{' || c == '[') {
          ++depth;
        } else if (c == '}' || c == ']') {
          --depth;
        }
      }
      over = over || row.json.size() + used > limits_.row_bytes;
      if (!over) row.json.append(rest.substr(0, used));
      cursor_.advance(used);
      if (end) break;
    }
    return over;
  }

  bool opened_ = false;
  bool done_ = false;
};

struct Cell {
  std::string text;
  bool quoted = false;
};

class Csv final : public CursorReader {
 public:
  Csv(Cursor cursor, ReaderLimits limits, char separator)
      : CursorReader(std::move(cursor), limits), separator_(separator) {}
  [[nodiscard]] FileFormat format() const override { return FileFormat::csv; }

  void read_header() {
    RawRow row;
    (void)cells(row, header_);  // there is one: detection saw its first character
    if (row.error) throw Failure(*row.error);
    std::set<std::string> seen;
    for (const auto& cell : header_) {
      if (cell.text.empty()) {
        throw Failure(data_error(cursor_.place(row.line), "a name for each column", "an empty one", "name it"));
      }
      if (!seen.insert(cell.text).second) {
        throw Failure(data_error(cursor_.place(row.line), "column names that differ", cat("\"", cell.text, "\" twice"),
                                 "rename one of the two"));
      }
    }
  }

 private:
  bool take(RawRow& row) override {
    std::vector<Cell> found;
    if (!cells(row, found)) return false;
    if (row.error) return true;
    if (found.size() != header_.size()) {
      row.error = data_error(cursor_.place(row.line), cat(header_.size(), " columns as in the header"),
                             cat(found.size()), "quote cells that hold separators or line ends");
      return true;
    }
    row.json.assign(1, '{');
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i > 0) row.json += ',';
      append_json_string(row.json, header_[i].text);
      row.json += ':';
      if (found[i].text.empty() && !found[i].quoted) {
        row.json += "null";
      } else {
        append_json_string(row.json, found[i].text);
      }
    }
    row.json += '}';
    return true;
  }

  // One record; false at the end of the file. Blank lines are skipped.
  bool cells(RawRow& row, std::vector<Cell>& out) {
    while (cursor_.peek() == '\n' || cursor_.peek() == '\r') cursor_.skip();
    row.line = cursor_.line();
    if (cursor_.peek() < 0) return false;
    out.assign(1, {});
    bool in_quotes = false;
    std::size_t bytes = 0;
    for (int c = cursor_.peek(); c >= 0; c = cursor_.peek()) {
      Cell& cell = out.back();
      cursor_.skip();
      if (++bytes > limits_.row_bytes) {
        throw Failure(data_error(cursor_.place(row.line), cat("a row of at most ", human_bytes(limits_.row_bytes)),
                                 "a longer one", "look for a quote that is never closed"));
      }
      if (in_quotes) {
        if (c != '"') {
          cell.text += static_cast<char>(c);
        } else if (cursor_.peek() == '"') {
          cursor_.skip();
          cell.text += '"';
        } else {
          in_quotes = false;
        }
      } else if (c == '"' && cell.text.empty() && !cell.quoted) {
        in_quotes = cell.quoted = true;
      } else if (c == separator_) {
        out.emplace_back();
      } else if (c == '\n') {
        return true;
      } else if (c != '\r' || cursor_.peek() != '\n') {
        cell.text += static_cast<char>(c);
      }
    }
    if (in_quotes) {
      row.error = data_error(cursor_.place(row.line), "a closing quote", "the end of the file",
                             "double the quotes inside quoted cells");
    }
    return true;
  }

  char separator_;
  std::vector<Cell> header_;
};

// The separator that the header uses most, commas winning ties.
char csv_separator(std::string_view header) {
  char best = ',';
  std::ptrdiff_t most = std::count(header.begin(), header.end(), ',');
  for (const char candidate : {'\t', ';'}) {
    const auto count = std::count(header.begin(), header.end(), candidate);
    if (count > most) {
      best = candidate;
      most = count;
    }
  }
  return best;
}

std::string extension(std::string_view path) {
  for (const std::string_view suffix : {".gz", ".zst", ".zstd"}) {
    if (path.ends_with(suffix)) path.remove_suffix(suffix.size());
  }
  const auto slash = path.rfind('/');
  const auto dot = path.rfind('.');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) return {};
  std::string lower(path.substr(dot + 1));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return lower;
}

std::unique_ptr<RowReader> detect(const std::string& path, Cursor cursor, const ReaderLimits& limits) {
  if (cursor.head(4).starts_with("PAR1")) return open_parquet(path, limits).value();
  if (cursor.head(3).starts_with("\xEF\xBB\xBF")) cursor.advance(3);
  cursor.skip_space();
  const int first = cursor.peek();
  if (first == '[') return std::make_unique<JsonArray>(std::move(cursor), limits);
  const std::string ending = extension(path);
  if (first == '{' || first < 0 || ending == "jsonl" || ending == "json" || ending == "ndjson") {
    return std::make_unique<JsonLines>(std::move(cursor), limits);
  }
  const std::string_view head = cursor.head(std::size_t{1} << 16);
  const std::string_view line = head.substr(0, head.find('\n'));
  const char separator = ending == "tsv" ? '\t' : csv_separator(line);
  const bool table = ending == "csv" || ending == "tsv" || line.find(separator) != std::string_view::npos;
  if (!table || head.find('\0') != std::string_view::npos) {
    throw Failure(data_error(path, "JSON lines, a JSON array or CSV", "something else",
                             "one JSON object a line, for example {\"query\": \"...\", \"response\": \"...\"}"));
  }
  auto csv = std::make_unique<Csv>(std::move(cursor), limits, separator);
  csv->read_header();
  return csv;
}

}  // namespace

std::string_view name(FileFormat format) {
  switch (format) {
    case FileFormat::jsonl:
      return "JSON lines";
    case FileFormat::json_array:
      return "JSON array";
    case FileFormat::csv:
      return "CSV";
    case FileFormat::parquet:
      return "Parquet";
  }
  return "";
}

Result<std::unique_ptr<RowReader>> open_rows(const std::string& path, const ReaderLimits& limits) {
  return catching([&] {
    auto source = open_source(path).value();
    return detect(path, Cursor(path, std::move(source)), limits);
  });
}

}  // namespace tern::data
