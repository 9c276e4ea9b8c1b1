// What the configurations of Gemma 2, 3 and 4 share.
#pragma once

#include "models/config_fields.h"

namespace tern::models {

struct GemmaDefaults {
  std::int64_t max_position_embeddings;
  FieldValue (*gguf_scalar)(
      const ModelConfig&);  // query_pre_attn_scalar as llama.cpp has it, for which GGUF has no key
};
// hidden_act and hidden_activation, of which transformers reads the second.
[[nodiscard]] std::vector<Field> gelu_tanh_fields();
// Those of a decoder, the activation, query_pre_attn_scalar and sliding_window.
[[nodiscard]] std::vector<Field> gemma_fields(const GemmaDefaults& defaults);

// 1 / sqrt(query_pre_attn_scalar): the scale of attention's scores.
[[nodiscard]] double gemma_attention_scale(const ModelConfig& config);

}  // namespace tern::models
