// DeepSeek-V3.2: V3 whose tokens see those keys alone that an indexer chooses.
#pragma once

#include "models/registry.h"
#include "nn/indexer.h"

namespace tern::models {

[[nodiscard]] Architecture deepseek_v32_architecture();

// The indexer of each layer; none of models that don't have its fields.
[[nodiscard]] nn::IndexerConfig indexer_of(const ModelConfig& config);
// Its parameters, under a layer's "self_attn".
void add_indexer(ParameterList& list, const ModelConfig& config, const std::string& attention, const std::string& gguf);
// What it keeps of each token.
[[nodiscard]] nn::CacheSpec indexer_cache(const ModelConfig& config, const std::string& attention);

}  // namespace tern::models
