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
#include "cli/questions.h"
#include "io/json.h"

namespace tern::cli {

struct AnsweredRow {
  std::string messages, images;         // as JSON
  std::optional<std::string> response;  // a text, or JSON of another kind; none where there is no answer
  std::string label;                    // "": none
  std::string error;                    // why there is no answer
};

// What a row's response may be.
enum class Responses { texts, any };

class AnsweredRows {
 public:
  // Begins `path`.unfinished, or reads it. A row that was half written is cut off. Throws Failure: the stopped run was
  // told otherwise (usage), the result file is not as that run left it (data), a file cannot be written.
  AnsweredRows(const std::filesystem::path& path, const Arguments& arguments, Responses responses);

  // Throws Failure (usage) where a stopped run is to go on in that file.
  static void require_no_mark(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t count() const { return count_; }
  // The next of them, which answers the question; none after the last. Throws Failure (data) for a line that is no
  // result row, and for the answer to another question.
  [[nodiscard]] std::optional<AnsweredRow> take(const Question& question);
  // All `rows` are answered. Throws Failure where there are more answers (data), or the mark cannot be taken away.
  void finish(std::int64_t rows);

 private:
  void begin_with(const io::Json& told, std::uintmax_t begin) const;
  void resume(const io::Json& told);
  [[nodiscard]] std::optional<AnsweredRow> next();
  [[nodiscard]] std::string place() const;  // of the row that next() gave last, file:row
  [[nodiscard]] Failure not_answering(std::string expected, std::string found) const;

  std::filesystem::path path_;
  std::filesystem::path mark_;
  Responses responses_;
  std::ifstream file_;
  std::int64_t count_ = 0;
  std::int64_t given_ = 0;
};

}  // namespace tern::cli
