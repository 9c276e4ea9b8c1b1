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

// The flags as given, and with --load_args true what the run of the checkpoint, adapter or model that this one goes on
// from was told of model, template and lengths, where the user says nothing else. Throws Failure where no args.json is.
[[nodiscard]] Arguments with_saved_arguments(const Arguments& given);

// Throws Failure (usage) for a flag that the user set and that --tuner_type, --adapters or the lack of held-out rows
// leaves without effect.
void refuse_idle_flags(const Arguments& arguments);

// An adapter from `resume` (a checkpoint) or --adapters, else a new one over --target_modules or --target_regex.
[[nodiscard]] models::LoadedAdapter prepare_adapter(const Arguments& arguments, session::Session& session,
                                                    const std::filesystem::path& resume);

// Names of the weights that --tuner_type full trains.
[[nodiscard]] std::vector<std::string> trained_parameters(const Arguments& arguments, const models::LoadedModel& model);

// How samples become steps.
[[nodiscard]] data::BatchOptions batch_options(const Arguments& arguments);

// How rows become samples: what a run that resumes must have been told too.
[[nodiscard]] data::Settings data_settings(const Arguments& arguments, const session::Session& session);

[[nodiscard]] train::TrainerOptions trainer_options(const Arguments& arguments, bool full);

}  // namespace tern::cli
