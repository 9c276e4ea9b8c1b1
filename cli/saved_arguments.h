// What an earlier run was told.
#pragma once

#include "cli/flags/arguments.h"

namespace tern::cli {

// The flags as given, and with --load_args true what the run of the checkpoint, adapter or model that this one goes on
// from was told of model, template and lengths, where the user says nothing else. Throws Failure where no args.json is.
[[nodiscard]] Arguments with_saved_arguments(const Arguments& given);

}  // namespace tern::cli
