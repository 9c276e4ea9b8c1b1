#include "cli/flags/flag_table.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "cli/flags/answer.h"

namespace tern::cli {
namespace {

constexpr std::string_view kVllmPrefix = "vllm_";

std::string replaced(std::string_view text, char from, char to) {
  std::string out(text);
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

bool listed(std::string_view bars, std::string_view word) {
  if (bars.empty()) return false;
  const auto words = split(bars, '|');
  return std::find(words.begin(), words.end(), word) != words.end();
}

const Flag* find_exact(const std::vector<const Flag*>& flags, std::string_view name) {
  for (const Flag* flag : flags) {
    if (flag->name == name || listed(flag->aliases, name)) return flag;
  }
  return nullptr;
}

const FlagValue* find_value(const std::vector<FlagValue>& values, std::string_view flag) {
  const auto it = std::find_if(values.begin(), values.end(), [&](const FlagValue& v) { return v.flag == flag; });
  return it == values.end() ? nullptr : &*it;
}

}  // namespace

std::string command_name(std::string_view typed) { return replaced(typed, '_', '-'); }
std::string flag_name(std::string_view typed) { return replaced(typed, '-', '_'); }

const CommandSpec* find_command(std::string_view typed) {
  const auto name = command_name(typed);
  for (const auto& command : command_table()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const FlagGroup& find_group(std::string_view name) {
  for (const auto& group : flag_groups()) {
    if (group.name == name) return group;
  }
  throw std::logic_error(cat("flag table: no group ", name));
}

std::vector<const Flag*> command_flags(const CommandSpec& command) {
  std::vector<const Flag*> flags;
  for (const auto group : command.groups) {
    for (const Flag& flag : find_group(group).flags) {
      const auto same = [&](const Flag* other) { return other->name == flag.name; };
      const auto it = std::find_if(flags.begin(), flags.end(), same);
      if (it != flags.end()) flags.erase(it);
      flags.push_back(&flag);
    }
  }
  return flags;
}

const Flag* find_flag(const CommandSpec& command, std::string_view typed) {
  const auto flags = command_flags(command);
  const auto name = flag_name(typed);
  if (const Flag* flag = find_exact(flags, name)) return flag;
  if (!name.starts_with(kVllmPrefix)) return nullptr;
  return find_exact(flags, std::string_view(name).substr(kVllmPrefix.size()));
}

std::vector<std::string> flag_spellings(const CommandSpec& command) {
  std::vector<std::string> names;
  for (const Flag* flag : command_flags(command)) {
    names.emplace_back(flag->name);
    if (flag->aliases.empty()) continue;
    for (const auto alias : split(flag->aliases, '|')) names.emplace_back(alias);
  }
  return names;
}

std::vector<std::string> commands_with(std::string_view typed) {
  std::vector<std::string> names;
  for (const auto& command : command_table()) {
    const Flag* flag = find_flag(command, typed);
    if (flag != nullptr && !why_no_effect(command, flag->name)) names.emplace_back(command.name);
  }
  return names;
}

std::string_view contract_default(const CommandSpec& command, const Flag& flag) {
  const auto* own = find_value(command.defaults, flag.name);
  return own != nullptr ? own->value : flag.fallback;
}

bool is_pending(const CommandSpec& command, std::string_view flag) {
  return std::find(command.pending.begin(), command.pending.end(), flag) != command.pending.end();
}

bool is_pending_value(const CommandSpec& command, std::string_view flag, std::string_view value) {
  return is_pending(command, cat(flag, "=", value));
}

std::optional<std::string_view> why_no_effect(const CommandSpec& command, std::string_view flag) {
  for (const auto& row : command.no_effect) {
    if (row.flag == flag) return row.why;
  }
  return std::nullopt;
}

std::vector<std::string> not_implemented() {
  std::vector<std::string> lines;
  for (const auto& command : command_table()) {
    if (command.run == nullptr) lines.emplace_back(command.name);
    for (const auto entry : command.pending) lines.push_back(cat(command.name, " --", entry));
    if (command.name == "plan") continue;  // takes what sft takes
    for (const auto flag : waiting_flags(command)) lines.push_back(cat(command.name, " --", flag));
  }
  return lines;
}

}  // namespace tern::cli
