// From the flags of a training command to what train/ takes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/flags/arguments.h"
#include "cli/session_flags.h"
#include "models/adapter.h"
#include "train/trainer.h"

namespace tern::cli {

// An adapter from `resume` (a checkpoint) or --adapters, else a new one over --target_modules or --target_regex.
[[nodiscard]] models::LoadedAdapter prepare_adapter(const Arguments& arguments, session::Session& session,
                                                    const std::filesystem::path& resume);

// Names of the weights that --tuner_type full trains.
[[nodiscard]] std::vector<std::string> trained_parameters(const Arguments& arguments, const models::LoadedModel& model);

// How samples become steps.
[[nodiscard]] data::BatchOptions batch_options(const Arguments& arguments);

[[nodiscard]] train::TrainerOptions trainer_options(const Arguments& arguments, bool full);

}  // namespace tern::cli
