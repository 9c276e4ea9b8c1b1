#include "cli/flags/help.h"

#include "base/strings.h"
#include "cli/flags/condition.h"

namespace tern::cli {
namespace {

constexpr std::size_t kIndent = 34;
constexpr std::size_t kWidth = 118;

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
  if (value.empty()) return std::string(flag.computed);
  const auto stand_in = effective_default(command, flag);
  return stand_in == value ? std::string(value) : cat(value, ", until then ", stand_in);
}

std::string status_text(const CommandSpec& command, const Flag& flag) {
  if (is_pending(command, flag.name)) return "not implemented yet";
  const auto values = pending_values(command, flag);
  return values.empty() ? std::string() : cat("not implemented yet: ", join(values, ", "));
}

// What the flag needs beside it to be taken, and to do anything where it is always taken.
std::string needs_text(const CommandSpec& command, const Flag& flag) {
  const EffectOf effect = effect_of(command, flag);
  const auto joined = [](const std::vector<const Condition*>& all) {
    std::vector<std::string> parts;
    for (const Condition* condition : all) parts.emplace_back(condition->needs);
    return join(parts, " and ");
  };
  std::string out;
  if (!effect.refused.empty()) out += cat("needs ", joined(effect.refused));
  if (!effect.told.empty()) out += cat(out.empty() ? "" : ", ", "only with ", joined(effect.told));
  return out;
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
      if (!flag->explanation.empty()) meaning += cat("; no difference: ", flag->explanation);
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

}  // namespace

std::string help_overview() {
  std::string out = "tern fine-tunes, runs and serves large language models on any accelerator.\n\n";
  out += "usage: tern COMMAND [CONFIG.yaml|.yml|.json] [--flag value]...\n\ncommands\n";
  for (const auto& command : command_table()) {
    const auto state = command.run != nullptr ? "" : " [not implemented yet]";
    out += wrapped(std::string(command.name), cat(command.summary, state));
  }
  out += "\n  tern COMMAND --help               the command's flags\n";
  out += "  tern --version                    the build and its backends\n";
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
  return out;
}

std::string help_markdown() {
  std::string out =
      "# Commands and flags\n\nMade by `tern --help-markdown` from the flag table; a test compares them.\n\n";
  out +=
      "`_` and `-` are interchangeable in commands and flags. Booleans are `--flag true|false`; a bare `--flag` is "
      "true.\n"
      "Lists take several values (`--adapters a b`); `--flag=value` works too. The first argument after the command "
      "may be\n"
      "a `.yaml`, `.yml` or `.json` file whose keys are flags (only YAML where the command takes a file by place); "
      "flags on\n"
      "the command line win, and `ENV:` inside it exports variables. vLLM's spellings with the prefix `vllm_` are "
      "aliases.\n"
      "An unknown flag, one without effect, and one not implemented yet are errors; what is not implemented yet is "
      "listed "
      "in\n"
      "`not-implemented.txt`. Each row says what its flag needs beside it. Scripts for ms-swift pass some flags "
      "always: "
      "where\n"
      "such a flag has no effect, one line says so.\n\n"
      "A failure ends with one line on stderr that starts `tern: error:`. Exit status: 0 done; 1 failed; 2 bad usage; "
      "3 bad\n"
      "input data or model; 4 no such device or out of memory; 75 interrupted after saving, resumable.\n";
  for (const auto& command : command_table()) append_markdown(command, out);
  return out;
}

}  // namespace tern::cli
