// The parts of the flag table, by the file that holds them.
#pragma once

#include <vector>

#include "cli/flags/flag.h"

namespace tern::cli {

[[nodiscard]] std::vector<FlagGroup> shared_groups();
[[nodiscard]] std::vector<FlagGroup> train_groups();
[[nodiscard]] std::vector<FlagGroup> tool_groups();

}  // namespace tern::cli
