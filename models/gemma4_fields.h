// The configuration of Gemma 4's language models, and what follows from it for each layer.
#pragma once

#include "io/json.h"
#include "io/json_field.h"
#include "models/config_fields.h"

namespace tern::models {

inline constexpr const char* kPerLayerSize = "hidden_size_per_layer_input";  // of embeddings of each layer; 0: none
inline constexpr const char* kLogitCap = "final_logit_softcapping";
inline constexpr const char* kLocalHead = "head_dim";  // of layers with a window; others have ModelConfig::head_dim

struct Gemma4Layer {
  std::int64_t window = 0;  // 0: it sees every key
  std::int64_t head_dim = 0;
  std::int64_t kv_heads = 0;
  std::int64_t intermediate_size = 0;
  bool keys_are_values = false;
  bool is_shared = false;    // later layers read its keys and values
  std::int64_t source = -1;  // the layer whose keys and values it reads; -1: its own
};
[[nodiscard]] std::vector<Gemma4Layer> gemma4_layers(const ModelConfig& config);

[[nodiscard]] std::vector<Field> gemma4_fields();

// transformers 5 says per_layer_config, by the number of each layer that sees every key, for global_head_dim and
// num_global_key_value_heads. Throws Failure (data) where they are not alike.
void settle_gemma4(const io::JsonField& json, io::Json& own);

}  // namespace tern::models
