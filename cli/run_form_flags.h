// The form of `tern web-ui`: the flags of `tern sft` as data for the server, and the command that a filled form is.
#pragma once

#include <filesystem>

#include "server/runs/run_form.h"

namespace tern::cli {

// Runs write to new versions below `output_dir`/<name of the model>.
[[nodiscard]] server::RunForm sft_form(const std::filesystem::path& output_dir);

}  // namespace tern::cli
