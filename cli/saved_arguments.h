// What an earlier run was told.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "cli/flags/arguments.h"

namespace tern::cli {

// The flags as given, and with --load_args true what the run of the checkpoint, adapter or model that this one goes on
// from was told of model, template and lengths, where the user says nothing else. Throws Failure where no args.json is.
[[nodiscard]] Arguments with_saved_arguments(const Arguments& given);

// The named flags from an args.json, with --rope_scaling and what belongs to it, where the user says nothing else.
// Throws Failure.
void load_saved_flags(Arguments& arguments, const std::filesystem::path& file, std::span<const std::string_view> names);

}  // namespace tern::cli
