// From the flags of devices, models and hubs to what session/ takes, with progress on the terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cli/flags/arguments.h"
#include "session/session.h"

namespace tern::cli {

// --device, --backend, --threads (of several the first), --fallback, --kernels and --enable_npu_model_patch, those that
// the command has.
[[nodiscard]] session::RuntimeOptions runtime_options(const Arguments& arguments);

// Plugins to look at: `--backend`, then the installed ones.
[[nodiscard]] std::vector<std::filesystem::path> backend_files(const Arguments& arguments);

// --use_hf, --hub_token and --model_revision, those that the command has. What is fetched shows its progress on stderr;
// Ctrl-C stops it.
[[nodiscard]] session::HubOptions hub_options(const Arguments& arguments);

// The path of --model, or of `model`, fetched where it is a hub id. Throws Failure.
[[nodiscard]] std::string model_path(const Arguments& arguments, const std::string& model);

// --model (or `model`), --mmproj, --model_type, --task_type, --template, --torch_dtype and the flags above, those that
// the command has.
[[nodiscard]] session::SessionOptions session_options(const Arguments& arguments, const std::string& model);

// --num_labels and --problem_type; none where the command has no --task_type seq_cls.
[[nodiscard]] std::optional<models::LabelHead> label_head(const Arguments& arguments);

// --rope_scaling and --max_model_len; nothing where the first isn't given, or the command has no such flag.
// --new_special_tokens, with the words of .txt files in their places; empty where the command has no such flag. Throws
// Failure (data) for a file that can't be read.
[[nodiscard]] std::vector<std::string> new_special_tokens(const Arguments& arguments);
[[nodiscard]] models::RopeOverride rope_override(const Arguments& arguments);

// --quiet; false where the command has no such flag.
[[nodiscard]] bool is_quiet(const Arguments& arguments);

// --torch_dtype; none where it isn't given, or the command has no such flag.
[[nodiscard]] std::optional<tern_dtype> torch_dtype(const Arguments& arguments);

// A progress line for weights as they are read; empty where none is to be seen.
[[nodiscard]] std::function<void(std::uint64_t done, std::uint64_t total)> weight_progress(const Arguments& arguments);

// Opens device, checkpoint and text; weights are not read yet, so that bad data is refused before they are. Throws
// Failure.
[[nodiscard]] std::unique_ptr<session::Session> open_session(const Arguments& arguments, const std::string& model);
// Reads the weights, with a progress line. Throws Failure.
void load_weights(session::Session& session, const Arguments& arguments, const models::LoadOptions& options);

// The engine serves one adapter at a time: several in --adapters are an error (usage).
void require_one_adapter(const Arguments& arguments);

}  // namespace tern::cli
