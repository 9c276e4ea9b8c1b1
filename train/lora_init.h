// How adapters start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "models/adapter.h"

namespace tern::train {

// PEFT's init_lora_weights, by ms-swift's words for it.
enum class InitWeights {
  uniform,   // true: A uniform in +-1/sqrt(in) (kaiming_uniform with a = sqrt(5)), B zero
  gaussian,  // A normal with a deviation of 1 / rank, B zero
  random,    // false: as PyTorch begins any linear layer, B uniform in +-1/sqrt(rank); the model begins changed
  pissa,     // models/initial_pairs.h
  olora,
  gradient,  // lora-ga: train/lora_ga.h
};
struct InitOptions {
  InitWeights kind = InitWeights::uniform;
  std::optional<std::int64_t> iterations = {};  // of pissa_niter_N
  // "pissa", "olora", "lora-ga", or empty: AdapterConfig::began_as.
  [[nodiscard]] std::string began_as() const;
};
// Errors (usage): a word that is none of them, or one whose method tern does not have, with what to use instead.
[[nodiscard]] Result<InitOptions> parse_init_weights(const std::string& word);

// Of lora-ga the model begins as it is, until its gradients are known.
// Bits are Philox keyed by (seed, name): the same adapter whatever the order of modules.
void init_adapter(graph::TensorStore& store, const models::LoadedAdapter& adapter, std::uint64_t seed,
                  InitWeights kind = InitWeights::uniform);
// VeRA: random matrices by its key, outputs that begin at zero. `modules`: its layers.
void init_vera(graph::TensorStore& store, const std::string& name, const models::LoadedAdapter& adapter,
               const std::vector<models::LinearModule>& modules);
// Pairs of pissa and olora, made of the model's weights.
void init_from_weights(const models::LoadedModel& model, const models::LoadedAdapter& adapter, std::uint64_t seed,
                       const InitOptions& options);

}  // namespace tern::train
