#include "cli/flags/command_line.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/strings.h"
#include "cli/flags/answer.h"
#include "cli/flags/config_file.h"

namespace tern::cli {
namespace {

using Words = std::vector<std::string>;

// `--x`; `-1` is a value.
bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool is_truth(std::string_view word) {
  static const std::set<std::string, std::less<>> kTruths = {"true",  "false", "True", "False", "TRUE",
                                                             "FALSE", "1",     "0",    "yes",   "no"};
  return kTruths.contains(word);
}

std::string shown(std::string_view typed) { return cat("--", typed); }

Error unknown_flag(const CommandSpec& command, std::string_view typed, const std::string& where) {
  const auto others = commands_with(typed);
  if (!others.empty()) {
    return usage_error(
        cat(where, " has no effect in tern ", command.name, ": it is a flag of tern ", join(others, ", ")),
        "remove it");
  }
  const auto near = nearest(flag_name(typed), flag_spellings(command));
  return usage_error(cat(where, " is not a flag of tern ", command.name),
                     near.empty() ? cat("see tern ", command.name, " --help") : cat("did you mean --", near, "?"));
}

Error unknown_command(std::string_view typed) {
  Words names;
  for (const auto& command : command_table()) names.emplace_back(command.name);
  const auto near = nearest(command_name(typed), names);
  return usage_error(cat("tern has no command \"", typed, "\""),
                     near.empty() ? "see tern --help" : cat("did you mean ", near, "?"));
}

class Parser {
 public:
  Parser(const CommandSpec& command, const Words& words, const Environment& environment)
      : words_(words), environment_(environment), invocation_{Arguments(command), false, {}} {}

  Invocation parse() {
    std::size_t at = 1;
    if (at < words_.size() && is_config(words_[at])) read_config(words_[at++]);
    while (at < words_.size()) at = read_word(at);
    read_environment();
    return std::move(invocation_);
  }

 private:
  [[nodiscard]] const CommandSpec& command() const { return arguments().command(); }
  Arguments& arguments() { return invocation_.arguments; }
  [[nodiscard]] const Arguments& arguments() const { return invocation_.arguments; }

  // A command that takes a file by place takes .json as that file.
  [[nodiscard]] bool is_config(std::string_view word) const {
    if (is_flag(word) || !is_config_name(word)) return false;
    return command().positional.empty() || !word.ends_with(".json");
  }

  // What follows is given by place, whatever it begins with.
  [[nodiscard]] bool ends_flags(std::string_view word) const {
    return word == "--" && !flags_over_ && !command().positional.empty();
  }

  void assign(const Flag& flag, std::span<const std::string> values, Provenance provenance, const std::string& where) {
    (void)arguments().assign(flag, values, provenance, where).value();
  }

  void read_config(const std::string& path) {
    auto file = read_config_file(path).value();
    invocation_.exports = std::move(file.exports);
    for (const auto& entry : file.entries) {
      const Flag* flag = find_flag(command(), entry.key);
      if (flag == nullptr) {
        answer(entry.key, entry.words, entry.where);
        continue;
      }
      if (!entry.words.empty()) assign(*flag, entry.words, Provenance::config, entry.where);
    }
  }

  std::size_t read_word(std::size_t at) {
    const std::string& word = words_[at];
    if (!flags_over_ && (word == "--help" || word == "-h")) {
      invocation_.help = true;
      return at + 1;
    }
    if (ends_flags(word)) {
      flags_over_ = true;
      return at + 1;
    }
    return is_flag(word) && !flags_over_ ? read_flag(at) : read_positional(at);
  }

  std::size_t read_flag(std::size_t at) {
    const std::string_view word = std::string_view(words_[at]).substr(2);
    const auto equals = word.find('=');
    const auto typed = word.substr(0, equals);
    const auto where = shown(typed);
    const Flag* flag = find_flag(command(), typed);
    Words values;
    if (equals != std::string_view::npos) values.emplace_back(word.substr(equals + 1));
    if (flag == nullptr) return read_answered(typed, at + 1, std::move(values), where);
    std::size_t next = at + 1;
    if (values.empty() || flag->type == FlagType::list) next = take_values(*flag, next, values);
    if (!seen_.insert(flag->name).second) {
      arguments().notice(cat("--", flag->name, " is given more than once, and the last one counts"));
    }
    assign(*flag, values, Provenance::command_line, where);
    return next;
  }

  // One of ms-swift's flags without a row of its own.
  void answer(std::string_view typed, const Words& values, const std::string& where) {
    const auto found = find_answer(command(), typed);
    if (!found) throw Failure(unknown_flag(command(), typed, where));
    auto line = judge_answer(*found, values.empty() ? "true" : join(values, " "), where).value();
    if (!line.empty()) arguments().notice(std::move(line));
  }

  std::size_t read_answered(std::string_view typed, std::size_t next, Words values, const std::string& where) {
    if (values.empty()) {
      while (next < words_.size() && !is_flag(words_[next])) values.push_back(words_[next++]);
    }
    answer(typed, values, where);
    return next;
  }

  [[nodiscard]] std::size_t take_values(const Flag& flag, std::size_t next, Words& values) const {
    const bool several = flag.type == FlagType::list;
    while (next < words_.size() && !is_flag(words_[next]) && !ends_flags(words_[next]) && (several || values.empty())) {
      // Where files are given by place, only true and false belong to a boolean: `tern inspect --json FILE`.
      if (flag.type == FlagType::boolean && !command().positional.empty() && !is_truth(words_[next])) break;
      values.push_back(words_[next++]);
    }
    return next;
  }

  std::size_t read_positional(std::size_t at) {
    const auto& names = command().positional;
    if (places_ >= names.size()) {
      throw Failure(
          usage_error(cat("\"", words_[at], "\" belongs to no flag"), cat("see tern ", command().name, " --help")));
    }
    const Flag* flag = find_flag(command(), names[places_++]);
    Words values = {words_[at]};
    std::size_t next = at + 1;
    while (flags_over_ && flag->type == FlagType::list && next < words_.size()) values.push_back(words_[next++]);
    if (flag->type == FlagType::list) next = take_values(*flag, next, values);
    assign(*flag, values, Provenance::command_line, shown(flag->name));
    return next;
  }

  [[nodiscard]] std::optional<std::string> variable(std::string_view name) const {
    for (const auto& [exported, value] : invocation_.exports) {
      if (exported == name) return value;
    }
    return environment_(std::string(name));
  }

  void read_environment() {
    for (const Flag* flag : command_flags(command())) {
      if (flag->env.empty() || why_no_effect(command(), flag->name)) continue;
      std::string value;
      std::string from;
      for (const auto name : split(flag->env, '|')) {
        const auto found = variable(name);
        if (!found || found->empty()) continue;
        if (!from.empty() && *found != value) {
          throw Failure(usage_error(cat("the variables ", from, " and ", name, " mean the same, but one is \"", value,
                                        "\" and the other is \"", *found, "\""),
                                    "unset one of them"));
        }
        value = *found;
        from = name;
      }
      if (!from.empty()) assign(*flag, Words{value}, Provenance::environment, cat("the variable ", from));
    }
  }

  const Words& words_;
  const Environment& environment_;
  Invocation invocation_;
  std::set<std::string_view> seen_;
  std::size_t places_ = 0;
  bool flags_over_ = false;  // behind "--"
};

}  // namespace

Result<Invocation> parse_command_line(const Words& words, const Environment& environment) {
  return catching([&]() -> Invocation {
    if (words.empty()) throw Failure(usage_error("tern needs a command", "see tern --help"));
    const CommandSpec* command = find_command(words[0]);
    if (command == nullptr) throw Failure(unknown_command(words[0]));
    return Parser(*command, words, environment).parse();
  });
}

}  // namespace tern::cli
