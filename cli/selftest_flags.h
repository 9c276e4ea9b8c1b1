// What the flags of tern selftest name.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/flags/arguments.h"

namespace tern::cli {

// --op, by id; empty: all. Throws Failure (usage).
[[nodiscard]] std::vector<std::uint32_t> ops_of(const Arguments& arguments);
// --require as ops::NeededBy: words, or words between commas. Throws Failure (usage).
[[nodiscard]] std::uint32_t required_by(const Arguments& arguments);

}  // namespace tern::cli
