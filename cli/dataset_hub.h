// Datasets of hubs, as the hub flags say.
#pragma once

#include "cli/flags/arguments.h"
#include "data/dataset.h"

namespace tern::cli {

// Fetches ORG/NAME[:subset] by --use_hf and --hub_token, those that the command has, with progress on stderr; Ctrl-C
// stops it, and what was fetched is kept.
[[nodiscard]] data::HubResolver dataset_hub(const Arguments& arguments);

}  // namespace tern::cli
