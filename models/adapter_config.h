// adapter_config.json: PEFT's LoraConfig and VeraConfig.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/module_names.h"

namespace tern::models {

inline constexpr const char* kAllLinear = "all-linear";    // PEFT's word in target_modules
inline constexpr const char* kClassification = "SEQ_CLS";  // PEFT's task type of a head of labels

// Biases of the model that are trained beside an adapter: all, or those of the modules that it sits on.
enum class TrainedBiases { none, all, lora_only };
// PEFT's word for them, and back; none where it is no such word.
[[nodiscard]] std::string_view word_of(TrainedBiases biases);
[[nodiscard]] std::optional<TrainedBiases> trained_biases(std::string_view word);

enum class AdapterKind {
  lora,
  vera,  // Kopiczko et al., "VeRA: Vector-based Random Matrix Adaptation", 2024 (vera.h)
};

struct AdapterConfig {
  AdapterKind kind = AdapterKind::lora;
  std::int64_t rank = 8;
  double alpha = 32;
  double dropout = 0.0;
  bool use_rslora = false;
  std::vector<std::string> target_modules;             // last parts of module names, "q_proj"
  std::string base_model;                              // as the run was given it
  std::string task_type = "CAUSAL_LM";                 // as PEFT names it; kClassification
  bool target_is_regex = false;                        // target_modules is one regular expression of whole names
  ModuleNames exclude_modules = {};                    // have no adapter, whatever chooses them
  std::vector<std::int64_t> layers_to_transform = {};  // where target_modules are last parts; empty: all
  std::vector<std::string> layers_pattern = {};        // what stands before a layer's number; empty: anything
  ModulePattern rank_pattern = {};                     // in place of `rank`
  ModulePattern alpha_pattern = {};                    // in place of `alpha`
  bool use_dora = false;                               // Liu et al., "DoRA", 2024
  std::vector<std::string> target_parameters = {};     // ends of names of experts' fused weights (adapter_parts.h)
  std::vector<std::string> modules_to_save = {};       // ends of names of modules that the file holds whole
  TrainedBiases bias = TrainedBiases::none;            // which the file holds, too (saved_modules.h)

  // Of VeRA:
  std::int64_t projection_prng_key = 0;  // what the random matrices are drawn from where the file lacks them
  double d_initial = 0.1;                // how its inner factors begin

  // "pissa", "olora", "lora-ga": the pairs began as a part of the weights or their gradients (initial_pairs.h), and the
  // weights are to be without it. Written, it's a plain adapter of twice the rank over the weights as they are, as PEFT
  // converts it: what it began as stands behind each pair, with the other sign. Empty: the weights are as they are.
  std::string began_as = {};

  [[nodiscard]] std::int64_t rank_of(const std::string& module) const;
  // alpha / rank of that module, or alpha / sqrt(rank) (rank-stabilised).
  [[nodiscard]] float scaling_of(const std::string& module) const;
  [[nodiscard]] float scaling() const { return scaling_of({}); }  // of those that no pattern names
  // Whether PEFT would put an adapter there; true of every module where target_modules is empty.
  [[nodiscard]] bool selects(const std::string& module) const;
};

// Errors (data): an absent or malformed file, and every field of PEFT that changes the computation and is not served,
// named.
[[nodiscard]] Result<AdapterConfig> read_adapter_config(const std::filesystem::path& directory);
// The same adapter where what it began as stands in its pairs.
[[nodiscard]] AdapterConfig with_initial_pairs(AdapterConfig config);
// adapter_config.json as PEFT reads it; of one that began as a part of the weights, that of with_initial_pairs.
[[nodiscard]] std::string adapter_config_json(const AdapterConfig& config);

}  // namespace tern::models
