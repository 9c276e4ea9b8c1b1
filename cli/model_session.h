// What every command with a model begins with: a device, the checkpoint, its text, its weights.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "accel/choice_cache.h"
#include "accel/registry.h"
#include "chat/model_text.h"
#include "cli/flags/arguments.h"
#include "graph/program.h"
#include "models/adapter.h"
#include "models/loader.h"

namespace tern::cli {

struct ModelSession {
  ModelSession() = default;
  // Prints where the time of the programs went, where the variable TERN_PROFILE asked for it.
  ~ModelSession();
  ModelSession(const ModelSession&) = delete;
  ModelSession& operator=(const ModelSession&) = delete;

  accel::SelectedDevice selected;
  accel::DevicePtr host;  // runs what the device cannot; null: nothing may
  accel::ChoiceCache choices;
  graph::ProgramOptions program;
  std::filesystem::path path;  // of the model
  std::shared_ptr<checkpoint::CheckpointSource> source;
  std::optional<chat::ModelText> text;
  models::LoadedModel model;
  tern_dtype compute = TERN_F32;
};

// Opens device, checkpoint and text; weights are not read yet, so that bad data is refused before they are.
[[nodiscard]] std::unique_ptr<ModelSession> open_session(const Arguments& arguments, const std::string& model);
// Reads the weights, with a progress line, and settles the compute dtype (printed).
void load_weights(ModelSession& session, const Arguments& arguments, const models::LoadOptions& options);

// The engine serves one adapter at a time: several in --adapters are an error (usage).
void require_one_adapter(const Arguments& arguments);

// Tells where each op of the program runs: in full where one runs on the host, else as a debug line. With `file`, the
// table is kept there.
void keep_bindings(const graph::Program& program, const std::filesystem::path& file = {});

}  // namespace tern::cli
