// A dataset row in one canonical form, whatever format the file used (docs/cli.md, "Dataset rows").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "chat/message.h"
#include "data/reader.h"

namespace tern::data {

using chat::Message;
using Column = std::pair<std::string, std::string>;  // name, value as JSON text

struct Row {
  std::vector<Message> messages;
  std::vector<Message> rejected;      // the whole dialogue with the rejected answer; empty unless a preference row
  std::optional<std::int64_t> label;  // of a classification, by its number; true and false are 1 and 0 (KTO: whether
                                      // the answer is desirable)
  std::optional<double> margin;       // preference: by how much the chosen answer is better
  std::optional<std::string> text;    // a pre-training row; `messages` is then empty
  std::vector<std::string> images;    // paths, URLs or base64, in the order of their places in the text
  std::vector<std::string> videos;
  std::vector<std::string> audios;
  std::string tools_json;     // array of tool definitions, or ""
  std::vector<Column> extra;  // the other columns, in file order: reward functions get them

  std::string file;
  std::uint64_t line = 0;
  std::uint64_t ordinal = 0;  // place among the file's rows, bad ones included

  // True where the last message answers: a row without one is a prompt only.
  [[nodiscard]] bool answered() const;
};

// `--columns '{"from": "to"}'`: names in the file to names of the contract.
using ColumnMap = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Result<ColumnMap> parse_columns(std::string_view json);

// A place in the text of a data set's rows and what is put there: rows with the tag `zh` have a word of their own.
struct Placeholder {
  std::string place;  // `{{NAME}}`
  std::string chinese;
  std::string other;
};

struct NormalizeOptions {
  ColumnMap columns;
  std::string system;   // the system message of rows that bring none
  bool strict = false;  // an answer's column that holds null is an error; else such a row is a prompt only
  std::vector<Placeholder> placeholders;  // filled in the rows of a self-cognition data set
};

// Normalises rows of any number of files; one per thread, as it keeps the JSON parser's buffers.
class Normalizer {
 public:
  explicit Normalizer(NormalizeOptions options);
  ~Normalizer();
  Normalizer(Normalizer&&) noexcept;
  Normalizer& operator=(Normalizer&&) noexcept;

  // The Error names file:line, the field, what was expected and what was found.
  [[nodiscard]] Result<Row> row(const RawRow& raw, const std::string& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One line of JSON (no newline) that the reader turns into an equal row: messages format, every field kept.
[[nodiscard]] std::string to_json(const Row& row);

}  // namespace tern::data
