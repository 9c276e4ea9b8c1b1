// ms-swift's flags that tern has no row for in its groups. Each is answered: it makes no difference here, it is refused
// with what to use instead, or it waits for a capability. A flag of a command's own groups comes before its answer, so
// that a capability that arrives takes its flags out of here by having them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace tern::cli {

enum class AnswerKind {
  no_difference,  // accepted with a line
  refused,        // an error that says what to use instead
  waits,          // an error that names the capability it comes with
};

// Many flags that have one answer.
struct AnswerRow {
  AnswerKind kind;
  std::string_view commands;   // `pt|sft`
  std::string_view reason;     // why it makes no difference, why it is refused, or the capability: `aligning`
  std::string_view flags;      // `tf32 log_level=passive|info`: each with the values that ask for nothing
  std::string_view mend = {};  // of a refused one; else `remove it`
};

// The rows of one kind, by the file that holds them.
[[nodiscard]] std::vector<AnswerRow> flags_without_difference();
[[nodiscard]] std::vector<AnswerRow> flags_refused();
[[nodiscard]] std::vector<AnswerRow> flags_waiting();

[[nodiscard]] const std::vector<AnswerRow>& answer_rows();

// One flag's answer in one command.
struct Answer {
  const AnswerRow* row = nullptr;
  std::string_view flag;
  std::string_view off;  // bars between the values that ask for nothing
};

// Of a flag that the command's own groups lack; `_` and `-` are the same.
[[nodiscard]] std::optional<Answer> find_answer(const CommandSpec& command, std::string_view typed);
[[nodiscard]] std::vector<Answer> answers_of(const AnswerRow& row);

// The flags of a command that wait for a capability.
[[nodiscard]] std::vector<std::string_view> waiting_flags(const CommandSpec& command);

// Whether `value` is one of those that ask for nothing: `True` is `true`, `1e-8` is `0.00000001`.
[[nodiscard]] bool asks_nothing(const Answer& answer, std::string_view value);

// The line to tell the user, empty where nothing was asked for. Errors (usage): refused, or waiting.
[[nodiscard]] Result<std::string> judge_answer(const Answer& answer, std::string_view value, const std::string& where);

}  // namespace tern::cli
