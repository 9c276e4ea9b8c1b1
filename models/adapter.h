// LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/tensor_scope.h"
#include "models/adapter_config.h"
#include "models/adapter_parts.h"
#include "models/loader.h"
#include "models/saved_modules.h"
#include "nn/context.h"

namespace tern::models {

inline constexpr const char* kHeadModule = "lm_head";
inline constexpr const char* kVeraInner = "vera_lambda_d";  // nn::LoraLayer::inner in PEFT's file
inline constexpr const char* kVeraAfter = "vera_lambda_b";  // and after

// A linear layer of the model that an adapter can sit on.
struct LinearModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  std::int64_t in = 0;
  std::int64_t out = 0;
  // Over a cache other products take it in (nn/latent_attention.h), so that rows can't have adapters of their own
  // there.
  bool is_absorbed = false;
  HeadParts rows = {};  // the order of lora_B's rows in PEFT's files, which is that of the weight's
};
// Every linear layer but the head: what `all-linear` means.
[[nodiscard]] std::vector<LinearModule> linear_modules(const ModelConfig& config);
// These and the head: what can have a pair.
[[nodiscard]] std::vector<LinearModule> adapter_modules(const ModelConfig& config);
// Those chosen by `targets` (last parts of names, or "all-linear"); embeddings are passed over (adapter_parts.h).
// Errors (usage): a target that matches nothing.
[[nodiscard]] Result<std::vector<LinearModule>> select_modules(const ModelConfig& config,
                                                               const std::vector<std::string>& targets);
// The embeddings that they choose, by name or as "all-embedding".
[[nodiscard]] std::vector<std::string> select_embeddings(const ModelConfig& config,
                                                         const std::vector<std::string>& targets);

// Stored names of what a module has; `adapter` keeps several apart in one store.
[[nodiscard]] nn::LoraLayer vera_layer(const std::string& adapter, const LinearModule& module,
                                       const AdapterConfig& config);
[[nodiscard]] nn::LoraLayer lora_layer(const std::string& adapter, const std::string& module,
                                       const AdapterConfig& config);

struct LoadedAdapter {
  AdapterConfig config;
  std::map<std::string, nn::LoraLayer> layers;  // by module
  std::map<std::string, HeadParts> rows = {};   // LinearModule::rows of the modules that have them
  std::shared_ptr<graph::TensorScope> tensors;  // the pairs, which go with the last copy of this
  std::vector<AdapterPart> parts = {};          // the tensors of the layers that are in_parts
  std::vector<SavedParameter> saved = {};       // they stand in the place of the model's own (saved_modules.h)
};

// The tensors of PEFT's file that a module has, as this layer's stored ones.
struct AdapterTensor {
  std::string name;      // "base_model.model.<module>.lora_A.weight"
  std::string stored;    // the layer's
  bool is_rows = false;  // its rows are the weight's
  // Stored as well: what stands behind it in the file, of A below, of B beside it with the other sign (began_as).
  std::string initial = {};
};
[[nodiscard]] std::vector<AdapterTensor> tensors_of(const std::string& module, const nn::LoraLayer& layer);
// Stored names of what is trained of an adapter.
[[nodiscard]] std::vector<std::string> trained_tensors(const LoadedAdapter& adapter);

// Creates the tensors in the store, uninitialised.
[[nodiscard]] LoadedAdapter create_adapter(LoadedModel& model, const std::string& adapter, const AdapterConfig& config,
                                           const std::vector<LinearModule>& modules);
// Adds parts to one that was just created.
void add_parts(LoadedAdapter& adapter, AdapterParts parts);

// Reads PEFT's files into the store, ready to compute with. Errors (data): a module that the model lacks or the
// configuration does not choose, a wrong shape, half a pair.
// `to_resume`: what a run of tern wrote comes apart again into what it trains and what that began as; else it's a plain
// adapter.
[[nodiscard]] Result<LoadedAdapter> load_adapter(LoadedModel& model, const std::string& adapter,
                                                 const std::filesystem::path& directory, bool to_resume = false);

// The tensors of a file that was loaded before, or written of this adapter, once more. Throws Failure.
void read_tensors(graph::TensorStore& store, const LoadedAdapter& adapter, const std::filesystem::path& directory);

// PEFT's name of a stored adapter tensor: "base_model.model.<module>.lora_A.weight".
[[nodiscard]] std::string peft_name(const std::string& module, const char* part);
// Of a vector, which PEFT names without ".weight"; DoRA's.
[[nodiscard]] std::string peft_vector_name(const std::string& module, const char* part);
[[nodiscard]] std::string peft_magnitude_name(const std::string& module);

// Writes both files into an existing directory; tensors as fp32, bit by bit what is on the device.
void save_adapter(const graph::TensorStore& store, const LoadedAdapter& adapter,
                  const std::filesystem::path& directory);

}  // namespace tern::models
