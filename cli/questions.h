// The rows of --val_dataset as what a model is asked, and the count of those that it has answered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/flags/arguments.h"
#include "data/row.h"
#include "engine/llm.h"

namespace tern::cli {

// A row's messages without the answer at their end, and that answer. A row {"text"} is a message of the user.
struct Question {
  std::string place;  // file:line
  engine::Dialogue dialogue;
  std::string label;                         // "": the row has none
  bool is_text = false;                      // a row {"text"}
  std::optional<std::int64_t> label_number;  // the row's "label"
};

// Each row of --val_dataset in order, until `push` gives false; bad rows are told in lines. Throws Failure where a file
// cannot be read.
void for_each_question(const Arguments& arguments, const std::function<bool(Question&& question)>& push);

class QuestionTally {
 public:
  // Another row; `error`: why it has no answer, "" where it has one.
  void count(const std::string& error);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  // Throws Failure where the user stopped the run, with what to do then, and where there were no rows.
  void require_all(const std::string& after_a_stop) const;
  // Says how many have no answer; with `strict` that is a Failure.
  void tell_errors(bool strict) const;

 private:
  std::int64_t rows_ = 0;
  std::int64_t errors_ = 0;
  std::string first_error_;
};

}  // namespace tern::cli
