// Where a training run's rows go: --report_to and the flags and variables of its tools.
#pragma once

#include "cli/flags/arguments.h"
#include "train/reporting/reporter.h"

namespace tern::cli {

// Throws Failure (usage) for what only a tool's own package can do, and a variable whose value is none of its tool's.
[[nodiscard]] train::ReportOptions report_options(const Arguments& arguments);

}  // namespace tern::cli
