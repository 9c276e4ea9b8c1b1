// From the device flags to an open device.
#pragma once

#include <filesystem>
#include <vector>

#include "accel/registry.h"
#include "cli/flags/arguments.h"

namespace tern::cli {

// Tells the backends `--threads` and where choices are kept. Before the first backend is loaded.
void set_up_host(const Arguments& arguments);

[[nodiscard]] accel::ProbeOptions probe_options();

// Plugins to look at: `--backend`, then the installed ones.
[[nodiscard]] std::vector<std::filesystem::path> backend_files(const Arguments& arguments);

// The device of `--device` (or its variables), else the best that probing finds; the choice is told. Throws Failure of
// kind usage or device.
[[nodiscard]] accel::SelectedDevice open_device(const Arguments& arguments);

}  // namespace tern::cli
