#include "cli/flags/help.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/flags/answer.h"
#include "cli/flags/condition.h"

namespace tern::cli {
namespace {

constexpr std::size_t kIndent = 34;
constexpr std::size_t kWidth = 118;

constexpr std::string_view kPageHead = R"(# Commands and flags

Made by `tern --help-markdown` from the flag table; a test compares them.

In commands and flags, `_` and `-` mean the same. Booleans are `--flag true|false`; a bare `--flag` is true.
Lists take several values (`--adapters a b`). `--flag=value` works too. The first argument after the command may be
a `.yaml`, `.yml` or `.json` file whose keys are flags (only YAML if the command takes a file as its first argument).
Flags on the command line override those in the file. The file's key `ENV` sets environment variables. vLLM's flag
names work with the prefix `vllm_`.

A flag that is unknown, has no effect or isn't implemented yet is an error; `not-implemented.txt` lists what isn't
implemented yet. Each row says which other flags its flag needs. Scripts for ms-swift always pass some flags: if one
of these has no effect, or any flag without effect is given its own default, tern says so in one line and goes on.

If a command fails, the last line on stderr starts with `tern: error:`. The exit status is 0 if all went well, 1 for a
failure, 2 for bad usage, 3 for bad data or a bad model, 4 if the device is absent or out of memory, and 75 if you
interrupted the command (a training run saves first and can be resumed).
)";

std::string_view type_name(FlagType type) {
  switch (type) {
    case FlagType::integer:
      return "INT";
    case FlagType::real:
      return "NUMBER";
    case FlagType::boolean:
      return "[true|false]";
    case FlagType::list:
      return "TEXT...";
    case FlagType::json:
      return "JSON";
    case FlagType::size:
      return "SIZE";
    default:
      return "TEXT";
  }
}

std::string bars(std::string_view choices, std::string_view separator) {
  std::vector<std::string> words;
  for (const auto word : split(choices, '|')) words.emplace_back(word);
  return join(words, separator);
}

// The values of `flag` that the command does not know yet.
std::vector<std::string> pending_values(const CommandSpec& command, const Flag& flag) {
  std::vector<std::string> values;
  const auto prefix = cat(flag.name, "=");
  for (const auto entry : command.pending) {
    if (entry.starts_with(prefix)) values.emplace_back(entry.substr(prefix.size()));
  }
  return values;
}

std::string default_text(const CommandSpec& command, const Flag& flag) {
  const auto value = contract_default(command, flag);
  return std::string(value.empty() ? flag.computed : value);
}

std::string status_text(const CommandSpec& command, const Flag& flag) {
  if (is_pending(command, flag.name)) return "not implemented yet";
  const auto values = pending_values(command, flag);
  return values.empty() ? std::string() : cat("not implemented yet: ", join(values, ", "));
}

// What the flag needs beside it, and what must not be there.
std::string needs_text(const CommandSpec& command, const Flag& flag) {
  const EffectOf effect = effect_of(command, flag);
  std::vector<std::string> notes;
  const auto tell = [&](const std::vector<const Condition*>& all, std::string_view with, std::string_view without) {
    constexpr std::string_view kNo = "no ";
    std::vector<std::string> wanted;
    std::vector<std::string> unwanted;
    for (const Condition* condition : all) {
      const bool no = condition->needs.starts_with("no --");
      (no ? unwanted : wanted).emplace_back(condition->needs.substr(no ? kNo.size() : 0));
    }
    if (!wanted.empty()) notes.push_back(cat(with, join(wanted, " and ")));
    if (!unwanted.empty()) notes.push_back(cat(without, join(unwanted, " or ")));
  };
  tell(effect.refused, "needs ", "not with ");
  tell(effect.told, "only with ", "no effect with ");
  return join(notes, ", ");
}

std::string description(const CommandSpec& command, const Flag& flag) {
  std::string out(flag.help);
  if (!flag.choices.empty()) out += cat(" (", bars(flag.choices, ", "), ")");
  if (!flag.range.empty()) out += cat(" ", flag.range);
  const auto value = default_text(command, flag);
  if (!value.empty()) out += cat(" [default: ", value, "]");
  if (!flag.env.empty()) out += cat(" [variable: ", bars(flag.env, ", "), "]");
  if (!flag.aliases.empty()) out += cat(" [also: --", bars(flag.aliases, ", --"), "]");
  for (const auto& note : {needs_text(command, flag), status_text(command, flag)}) {
    if (!note.empty()) out += cat(" [", note, "]");
  }
  return out;
}

// `text` behind `head`, wrapped and indented.
std::string wrapped(const std::string& head, std::string_view text) {
  std::string out = cat("  ", head);
  if (out.size() + 2 > kIndent) out += "\n" + std::string(kIndent, ' ');
  std::size_t column = out.find('\n') == std::string::npos ? out.size() : kIndent;
  for (; column < kIndent; ++column) out += ' ';
  bool first = true;
  for (const auto word : split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  return out + "\n";
}

bool shown(const CommandSpec& command, const Flag& flag) { return !why_no_effect(command, flag.name); }

// Calls `group_body(title, flags)` for each group with flags of its own in the command.
template <typename Body>
void each_group(const CommandSpec& command, Body&& group_body) {
  const auto flags = command_flags(command);
  for (const auto name : command.groups) {
    const auto& group = find_group(name);
    std::vector<const Flag*> own;
    for (const Flag* flag : flags) {
      const bool here = flag >= group.flags.data() && flag < group.flags.data() + group.flags.size();
      if (here && shown(command, *flag)) own.push_back(flag);
    }
    if (!own.empty()) group_body(group.title, own);
  }
}

std::string usage_line(const CommandSpec& command) {
  std::string out = cat("tern ", command.name);
  if (command.positional.empty()) out += " [CONFIG.yaml|.yml|.json]";
  for (const auto name : command.positional) {
    out += " ";
    for (const char c : name) out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return out + " [--flag value]...";
}

std::string table_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void append_markdown(const CommandSpec& command, std::string& out) {
  const bool implemented = command.run != nullptr;
  out += cat("\n## tern ", command.name, "\n\n", command.summary, ".");
  out += implemented ? "\n" : " Not implemented yet.\n";
  out += cat("\n```\n", usage_line(command), "\n", command.example, command.example.empty() ? "" : "\n", "```\n");
  each_group(command, [&](std::string_view title, const std::vector<const Flag*>& flags) {
    out += cat("\n", title, "\n\n| flag | default | meaning |\n|---|---|---|\n");
    for (const Flag* flag : flags) {
      std::string meaning(flag->help);
      if (!flag->choices.empty()) meaning += cat(" (", bars(flag->choices, ", "), ")");
      if (!flag->explanation.empty()) meaning += cat("; makes no difference: ", flag->explanation);
      if (!flag->env.empty()) meaning += cat("; variable ", bars(flag->env, ", "));
      if (!flag->aliases.empty()) meaning += cat("; also `", bars(flag->aliases, "`, `"), "`");
      const auto needs = needs_text(command, *flag);
      if (!needs.empty()) meaning += cat("; ", needs);
      const auto status = implemented ? status_text(command, *flag) : std::string();
      if (!status.empty()) meaning += cat("; *", status, "*");
      out +=
          cat("| `", flag->name, "` | ", table_text(default_text(command, *flag)), " | ", table_text(meaning), " |\n");
    }
  });
}

bool has_answers(const CommandSpec& command) {
  return std::any_of(answer_rows().begin(), answer_rows().end(), [&](const AnswerRow& row) {
    const auto names = split(row.commands, '|');
    return std::find(names.begin(), names.end(), command.name) != names.end();
  });
}

// The flags of `row` that are answered by it, and by no row of a command's own groups.
std::vector<std::string> answered_flags(const AnswerRow& row) {
  std::vector<std::string> flags;
  for (const auto& answer : answers_of(row)) {
    for (const auto name : split(row.commands, '|')) {
      const CommandSpec& command = *find_command(name);
      if (find_flag(command, answer.flag) != nullptr || find_answer(command, answer.flag)->row != &row) continue;
      flags.push_back(cat("`", answer.flag, "`"));
      break;
    }
  }
  return flags;
}

void append_answers(std::string& out) {
  struct Part {
    AnswerKind kind;
    std::string_view title;
    std::string_view column;
  };
  constexpr Part kParts[] = {{AnswerKind::no_difference, "Accepted, and without a difference", "why"},
                             {AnswerKind::refused, "Refused, with what to use instead", "why, and what to use"},
                             {AnswerKind::waits, "Not implemented yet", "comes with"}};
  out +=
      "\n## ms-swift's other flags\n\nA command also answers the flags of ms-swift that its tables above don't "
      "have. A default may always be given: it\nasks for nothing.\n";
  for (const auto& part : kParts) {
    out += cat("\n", part.title, "\n\n| flags | commands | ", part.column, " |\n|---|---|---|\n");
    for (const auto& row : answer_rows()) {
      const auto flags = row.kind == part.kind ? answered_flags(row) : std::vector<std::string>();
      if (flags.empty()) continue;
      const std::string mend(row.mend.empty() ? "remove it" : row.mend);
      const auto text = row.kind == AnswerKind::refused ? cat(row.reason, ": ", mend) : std::string(row.reason);
      out += cat("| ", join(flags, " "), " | ", bars(row.commands, " "), " | ", table_text(text), " |\n");
    }
  }
}

}  // namespace

std::string help_overview() {
  std::string out = "tern fine-tunes and runs large language models.\n\n";
  out += "usage: tern COMMAND [CONFIG.yaml|.yml|.json] [--flag value]...\n\ncommands\n";
  for (const auto& command : command_table()) {
    const auto state = command.run != nullptr ? "" : " [not implemented yet]";
    out += wrapped(std::string(command.name), cat(command.summary, state));
  }
  out += "\n  tern COMMAND --help               shows a command's flags\n";
  out += "  tern --version                    shows the build and its backends\n";
  return out;
}

std::string help_command(const CommandSpec& command) {
  std::string out = cat("tern ", command.name, ": ", command.summary, "\n\nusage: ", usage_line(command), "\n");
  if (!command.example.empty()) out += cat("example: ", command.example, "\n");
  each_group(command, [&](std::string_view title, const std::vector<const Flag*>& flags) {
    out += cat("\n", title, "\n");
    for (const Flag* flag : flags) {
      const auto kind = flag->type == FlagType::choice ? std::string_view("NAME") : type_name(flag->type);
      out += wrapped(cat("--", flag->name, " ", kind), description(command, *flag));
    }
  });
  if (has_answers(command)) out += "\nms-swift's other flags are answered too: see docs/cli.md\n";
  return out;
}

std::string help_markdown() {
  std::string out(kPageHead);
  for (const auto& command : command_table()) append_markdown(command, out);
  append_answers(out);
  return out;
}

}  // namespace tern::cli
