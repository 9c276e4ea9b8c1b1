// From the flags of a training command to what train/ takes.
#pragma once

#include "cli/flags/arguments.h"
#include "train/run.h"

namespace tern::cli {

// A run as the flags say it; args.json holds them. Throws Failure.
[[nodiscard]] train::RunOptions run_options(const Arguments& arguments);

}  // namespace tern::cli
