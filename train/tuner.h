// What a run trains, and what writes it: an adapter, or the model's own weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/adapter.h"
#include "models/saved_modules.h"
#include "train/lora_ga.h"
#include "train/model_saver.h"
#include "train/trained_parameters.h"
#include "train/training_graph.h"

namespace tern::train {

enum class TunerType { lora, full };

struct TunerOptions {
  TunerType type = TunerType::lora;
  models::AdapterKind kind = models::AdapterKind::lora;  // of a new adapter
  // A new adapter. What is unset is models::AdapterConfig's default; beside a checkpoint it is what that was trained
  // with, and another value is an error.
  std::optional<std::int64_t> lora_rank;
  std::optional<double> lora_alpha;
  std::optional<double> lora_dropout;
  std::optional<bool> use_rslora;
  std::optional<bool> use_dora;
  std::optional<std::int64_t> vera_projection_prng_key;  // of VeRA, whose rank and dropout are those above
  std::optional<double> vera_d_initial;
  std::optional<std::string> init_weights;         // lora_init.h
  LoraGaOptions lora_ga;                           // of init_weights lora-ga
  std::vector<std::string> target_modules;         // last parts of layer names, or "all-linear"; empty: all-linear
  std::vector<std::string> target_parameters;      // ends of names of experts' fused weights (models/adapter_parts.h)
  std::string target_regex;                        // of whole layer names, as PEFT takes it; wins
  std::optional<models::TrainedBiases> lora_bias;  // of the model's own biases, which are trained beside a new adapter
  std::vector<std::string> modules_to_save;        // trained in full beside a new adapter (models/saved_modules.h)
  std::filesystem::path adapter;                   // a directory in PEFT's format to go on training; "": a new one
  Selection selection;                             // of full tuning
  std::uint64_t max_shard_size = 5'000'000'000;    // bytes of a saved model's file
  std::uint64_t seed = 42;                         // of a new adapter
};

// Keeps references to the model.
struct Tuner {
  TunerType type = TunerType::lora;
  models::LoadedAdapter adapter;       // of TunerType::lora
  bool begins_by_gradients = false;    // of a new adapter: its pairs wait for lora_ga.h
  std::vector<std::string> trainable;  // stored names
  std::unique_ptr<ModelSaver> saver;   // refers to `adapter`: a Tuner stays where it was made

  // Says in the graph's options what is trained.
  void describe(TrainingGraphOptions& graph) const;
  // Takes the weights of a checkpoint that this tuner wrote. Throws Failure.
  void load(models::LoadedModel& model, const std::filesystem::path& checkpoint) const;
};

// What is trained in full beside an adapter: the checkpoint's, else the given adapter's, else what is asked for.
[[nodiscard]] Result<models::SavedModules> modules_beside(const TunerOptions& options,
                                                          const models::ModelConfig& config,
                                                          const std::filesystem::path& checkpoint);

// `checkpoint`: weights to go on from; "": none. `model_name` and `model_path`: as the run was given the model, and
// where its files lie. Errors: usage (names that choose nothing, settings other than the checkpoint's), data (the
// checkpoint or the adapter).
[[nodiscard]] Result<std::unique_ptr<Tuner>> make_tuner(const TunerOptions& options, models::LoadedModel& model,
                                                        const std::string& model_name,
                                                        const std::filesystem::path& model_path,
                                                        const std::filesystem::path& checkpoint);

}  // namespace tern::train
