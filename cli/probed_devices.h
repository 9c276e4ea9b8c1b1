// The backends that --device and --backend ask for, probed now.
#pragma once

#include <vector>

#include "accel/registry.h"
#include "cli/flags/arguments.h"

namespace tern::cli {

// Every backend, or the one that --device names; verdicts of earlier probes are forgotten. Throws Failure where a named
// device isn't there, or a named plugin can't be loaded.
[[nodiscard]] std::vector<accel::ProbedBackend> probe_wanted(const Arguments& arguments);

}  // namespace tern::cli
