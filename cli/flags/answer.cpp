#include "cli/flags/answer.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "cli/flags/flag_table.h"

namespace tern::cli {
namespace {

bool in_bars(std::string_view bars, std::string_view word) {
  const auto words = split(bars, '|');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || result.ec != std::errc{} || result.ptr != word.data() + word.size()) return std::nullopt;
  return value;
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (out == "yes") return "true";
  return out == "no" ? "false" : out;
}

bool same_value(std::string_view a, std::string_view b) {
  if (a == b || lower(a) == lower(b)) return true;
  const bool truth = b == "true" || b == "false";
  if (truth && (a == "1" || a == "0")) return (a == "1") == (b == "true");
  const auto x = number(a);
  const auto y = number(b);
  return x && y && *x == *y;
}

}  // namespace

const std::vector<AnswerRow>& answer_rows() {
  static const std::vector<AnswerRow> rows = [] {
    auto all = flags_without_difference();
    for (const auto& part : {flags_refused(), flags_waiting()}) all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

std::vector<Answer> answers_of(const AnswerRow& row) {
  std::vector<Answer> answers;
  for (const auto word : split(row.flags, ' ')) {
    if (word.empty()) continue;
    const auto equals = std::min(word.find('='), word.size());
    answers.push_back({&row, word.substr(0, equals), equals < word.size() ? word.substr(equals + 1) : ""});
  }
  return answers;
}

std::optional<Answer> find_answer(const CommandSpec& command, std::string_view typed) {
  const auto name = flag_name(typed);
  for (const auto& row : answer_rows()) {
    if (!in_bars(row.commands, command.name)) continue;
    for (const auto& answer : answers_of(row)) {
      if (answer.flag == name) return answer;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> waiting_flags(const CommandSpec& command) {
  std::vector<std::string_view> flags;
  for (const auto& row : answer_rows()) {
    if (row.kind != AnswerKind::waits || !in_bars(row.commands, command.name)) continue;
    for (const auto& answer : answers_of(row)) {
      if (find_flag(command, answer.flag) != nullptr || find_answer(command, answer.flag)->row != &row) continue;
      flags.push_back(answer.flag);
    }
  }
  return flags;
}

bool asks_nothing(const Answer& answer, std::string_view value) {
  if (answer.off.empty()) return false;
  const auto words = split(answer.off, '|');
  return std::any_of(words.begin(), words.end(), [&](auto word) { return same_value(value, word); });
}

Result<std::string> judge_answer(const Answer& answer, std::string_view value, const std::string& where) {
  const AnswerRow& row = *answer.row;
  if (row.kind == AnswerKind::no_difference) {
    return cat("--", answer.flag, " ", value, " makes no difference: ", row.reason);
  }
  if (asks_nothing(answer, value)) return std::string();
  const std::string mend(row.mend.empty() ? "remove it" : row.mend);
  if (row.kind == AnswerKind::refused) return usage_error(cat(where, " is refused: ", row.reason), mend);
  return usage_error(cat(where, " is not implemented yet: it comes with ", row.reason), mend);
}

}  // namespace tern::cli
