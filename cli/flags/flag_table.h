// The one table of commands and flags. Parsing, --help, config files, "did you mean", docs/cli.md and
// docs/not-implemented.txt are all made from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/flag.h"

namespace tern::cli {

[[nodiscard]] const std::vector<CommandSpec>& command_table();
[[nodiscard]] const std::vector<FlagGroup>& flag_groups();

// `_` and `-` are the same in commands and flags: commands are kept with `-`, flags with `_`.
[[nodiscard]] std::string command_name(std::string_view typed);
[[nodiscard]] std::string flag_name(std::string_view typed);

[[nodiscard]] const CommandSpec* find_command(std::string_view typed);
[[nodiscard]] const FlagGroup& find_group(std::string_view name);

// The command's flags in the order of its groups; a later group's row replaces an earlier one of the same name.
[[nodiscard]] std::vector<const Flag*> command_flags(const CommandSpec& command);

// By name, alias or vLLM's spelling (`vllm_` before a known name); null where the command has no such flag.
[[nodiscard]] const Flag* find_flag(const CommandSpec& command, std::string_view typed);

// Every name and alias the command knows, for "did you mean".
[[nodiscard]] std::vector<std::string> flag_spellings(const CommandSpec& command);

// The commands whose table holds the flag.
[[nodiscard]] std::vector<std::string> commands_with(std::string_view typed);

// The default of `flag` in `command`.
[[nodiscard]] std::string_view contract_default(const CommandSpec& command, const Flag& flag);

[[nodiscard]] bool is_pending(const CommandSpec& command, std::string_view flag);
[[nodiscard]] bool is_pending_value(const CommandSpec& command, std::string_view flag, std::string_view value);
[[nodiscard]] std::optional<std::string_view> why_no_effect(const CommandSpec& command, std::string_view flag);

// The lines of docs/not-implemented.txt: `rlhf`, `sft --deepspeed`, `sft --report_to=tensorboard`. A command without a
// function is listed with those of its flags that will still be missing.
[[nodiscard]] std::vector<std::string> not_implemented();

}  // namespace tern::cli
