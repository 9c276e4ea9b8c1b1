// Adapters folded into their base: what tern merge-lora and tern export share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/flags/arguments.h"
#include "session/save_model.h"

namespace tern::cli {

// --load_args: of the checkpoint in --adapters, else as given; what the training run was told of the model, where the
// user says nothing else. Throws Failure.
[[nodiscard]] Arguments with_training_arguments(const Arguments& given);

[[nodiscard]] std::vector<std::filesystem::path> adapter_paths(const Arguments& arguments);

// --model, else what the adapter says it was trained on. Throws Failure (usage) where neither does.
[[nodiscard]] std::string base_model(const Arguments& arguments);

// The folder or file in --adapters or --model, with `suffix` behind its name, without the ending of a file; of a short
// name or a hub id a name of this folder.
[[nodiscard]] std::filesystem::path named_after(const Arguments& arguments, const std::string& suffix);

// Compares what was written with base and adapter, tells how far they are apart, and throws Failure where that is no
// rounding. Empty where --verify_merge is false.
[[nodiscard]] session::WrittenCheck merge_check(const Arguments& arguments, const std::filesystem::path& model);

// Writes --adapters merged into the model at `model`: a GGUF file where the target's name says so, else a directory.
// Throws Failure.
void write_merged(const Arguments& arguments, const std::filesystem::path& model, const std::filesystem::path& target);

// A model as a GGUF file of the type `outtype` ("": as ConvertModelOptions has it), with the adapters that --adapters
// names. Throws Failure.
void write_gguf(const Arguments& arguments, const std::filesystem::path& model, const std::filesystem::path& target,
                const std::string& outtype);

}  // namespace tern::cli
