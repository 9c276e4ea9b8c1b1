// What --help prints and docs/cli.md holds, made from the flag table.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/flag_table.h"

namespace tern::cli {

// `implemented` names the commands that have a function.
[[nodiscard]] std::string help_overview(const std::vector<std::string>& implemented);
[[nodiscard]] std::string help_command(const CommandSpec& command);
[[nodiscard]] std::string help_markdown(const std::vector<std::string>& implemented);

}  // namespace tern::cli
