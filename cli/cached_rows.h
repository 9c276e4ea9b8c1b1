// tern export --to_cached_dataset true.
#pragma once

#include "cli/flags/arguments.h"

namespace tern::cli {

// Tokenises --dataset and --val_dataset into --output_dir, and tells the folders. Throws Failure.
void export_cached_dataset(const Arguments& arguments);

}  // namespace tern::cli
