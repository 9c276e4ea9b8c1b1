// The rows that a run over a data set wrote before it was stopped or killed: the next run goes on behind them. Beside
// the result file lies <file>.unfinished until all rows are answered: what the run was told, and where its rows begin,
// as a file may hold those of earlier runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "cli/flags/arguments.h"
#include "io/json.h"

namespace tern::cli {

struct AnsweredRow {
  std::string messages;                 // as JSON
  std::optional<std::string> response;  // none where there is no answer
  std::string label;                    // "": none
  std::string error;                    // why there is no answer
};

class AnsweredRows {
 public:
  // Begins `path`.unfinished, or reads it. A row that was half written is cut off. Throws Failure: the stopped run was
  // told otherwise (usage), the result file is not as that run left it (data), a file cannot be written.
  AnsweredRows(const std::filesystem::path& path, const Arguments& arguments);

  // Throws Failure (usage) where a stopped run is to go on in that file.
  static void require_no_mark(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t count() const { return count_; }
  // The next of them in order; none after the last. Throws Failure (data) for a line that is no result row.
  [[nodiscard]] std::optional<AnsweredRow> next();
  // The place of the row that next() gave last, file:row.
  [[nodiscard]] std::string place() const;
  [[nodiscard]] const std::filesystem::path& mark() const { return mark_; }
  // All rows are answered. Throws Failure where the mark cannot be taken away.
  void finish() const;

 private:
  void begin_with(const io::Json& told, std::uintmax_t begin) const;
  void resume(const io::Json& told);

  std::filesystem::path path_;
  std::filesystem::path mark_;
  std::ifstream file_;
  std::int64_t count_ = 0;
  std::int64_t given_ = 0;
};

}  // namespace tern::cli
