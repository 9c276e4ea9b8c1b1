// What --help prints and docs/cli.md holds, made from the flag table.
#pragma once

#include <string>

#include "cli/flags/flag_table.h"

namespace tern::cli {

[[nodiscard]] std::string help_overview();
[[nodiscard]] std::string help_command(const CommandSpec& command);
[[nodiscard]] std::string help_markdown();

}  // namespace tern::cli
