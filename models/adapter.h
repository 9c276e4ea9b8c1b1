// LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/tensor_scope.h"
#include "models/adapter_parts.h"
#include "models/loader.h"
#include "nn/context.h"

namespace tern::models {

struct AdapterConfig {
  std::int64_t rank = 8;
  double alpha = 32;
  double dropout = 0.0;
  bool use_rslora = false;
  std::vector<std::string> target_modules;          // last parts of module names, "q_proj"
  std::string base_model;                           // as the run was given it
  std::vector<std::string> target_parameters = {};  // ends of names of experts' fused weights (adapter_parts.h)
  std::vector<std::string> modules_to_save = {};    // ends of names of modules that the file holds whole

  [[nodiscard]] float scaling() const;  // alpha / rank, or alpha / sqrt(rank) (rank-stabilised)
};

// Errors (data): absent or malformed files, and PEFT features that are not served (bias, DoRA), named.
[[nodiscard]] Result<AdapterConfig> read_adapter_config(const std::filesystem::path& directory);
// adapter_config.json as PEFT reads it.
[[nodiscard]] std::string adapter_config_json(const AdapterConfig& config);

inline constexpr const char* kHeadModule = "lm_head";

// A linear layer of the model that an adapter can sit on.
struct LinearModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  std::int64_t in = 0;
  std::int64_t out = 0;
  HeadParts rows = {};  // the order of lora_B's rows in PEFT's files, which is that of the weight's
};
// Every linear layer but the head: what `all-linear` means.
[[nodiscard]] std::vector<LinearModule> linear_modules(const LoadedModel& model);
// These and the head: what can have a pair.
[[nodiscard]] std::vector<LinearModule> adapter_modules(const LoadedModel& model);
// Those chosen by `targets` (last parts of names, or "all-linear"); embeddings are passed over (adapter_parts.h).
// Errors (usage): a target that matches nothing.
[[nodiscard]] Result<std::vector<LinearModule>> select_modules(const LoadedModel& model,
                                                               const std::vector<std::string>& targets);
// The embeddings that they choose, by name or as "all-embedding".
[[nodiscard]] std::vector<std::string> select_embeddings(const LoadedModel& model,
                                                         const std::vector<std::string>& targets);

// Stored names of a module's pair; `adapter` keeps several apart in one store.
[[nodiscard]] nn::LoraLayer lora_layer(const std::string& adapter, const std::string& module,
                                       const AdapterConfig& config);

struct LoadedAdapter {
  AdapterConfig config;
  std::map<std::string, nn::LoraLayer> layers;  // by module
  std::map<std::string, HeadParts> rows = {};   // LinearModule::rows of the modules that have them
  std::shared_ptr<graph::TensorScope> tensors;  // the pairs, which go with the last copy of this
  std::vector<AdapterPart> parts = {};          // the tensors of the layers that are in_parts
  std::vector<ParameterSpec> saved = {};        // of modules_to_save: they stand in the place of the model's own
};
// Creates the pairs in the store, uninitialised.
[[nodiscard]] LoadedAdapter create_adapter(LoadedModel& model, const std::string& adapter, const AdapterConfig& config,
                                           const std::vector<LinearModule>& modules);
// Adds parts to one that was just created.
void add_parts(LoadedAdapter& adapter, AdapterParts parts);

// Reads PEFT's files into the store. Errors (data): a module that the model lacks, a wrong shape, half a pair.
[[nodiscard]] Result<LoadedAdapter> load_adapter(LoadedModel& model, const std::string& adapter,
                                                 const std::filesystem::path& directory);

// PEFT's name of a stored adapter tensor: "base_model.model.<module>.lora_A.weight".
[[nodiscard]] std::string peft_name(const std::string& module, const char* part);

// Writes both files into an existing directory; tensors as fp32, bit by bit what is on the device.
void save_adapter(const graph::TensorStore& store, const LoadedAdapter& adapter,
                  const std::filesystem::path& directory);

}  // namespace tern::models
