// Which weights GaLore projects.
#pragma once

#include <set>
#include <string>

#include "models/loader.h"
#include "train/optimizers/options.h"

namespace tern::train {

// Stored names: of linear layers, or of those whose module's name has one of the options' words. Throws Failure (usage)
// where no name has one.
[[nodiscard]] std::set<std::string> galore_parameters(const GaloreOptions& options, const models::LoadedModel& model);

}  // namespace tern::train
