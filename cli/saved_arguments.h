// What an earlier run was told.
#pragma once

#include <filesystem>
#include <string>

#include "cli/flags/arguments.h"

namespace tern::cli {

// The flags as given, and with --load_args true what the run of the checkpoint, adapter or model that this one goes on
// from was told of model, template and lengths, where the user says nothing else. Throws Failure where no args.json is.
[[nodiscard]] Arguments with_saved_arguments(const Arguments& given);

// --rope_scaling from the text `saved` of an args.json and, with a scaling, --max_model_len, where the user says
// nothing else. Throws Failure.
void load_saved_positions(Arguments& arguments, const std::string& saved, const std::filesystem::path& file);

}  // namespace tern::cli
