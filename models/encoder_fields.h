// What encoders' configurations share.
#pragma once

#include "models/config_fields.h"
#include "tern/accel_ops.h"

namespace tern::models {

// The sizes that each encoder has, num_attention_heads, which share hidden_size evenly, and what follows from them;
// then `more`; then shares of numbers that training drops, by these keys: nothing is dropped here.
[[nodiscard]] std::vector<Field> encoder_fields(std::vector<Field> more, const std::vector<const char*>& dropped);
// One of transformers' forms of gelu under this key, "gelu" where there is none.
[[nodiscard]] Field gelu_field(const char* key, const char* gguf = "");
// position_embedding_type of an encoder that looks positions up.
[[nodiscard]] Field learned_positions_field();
// What gelu_field's says.
[[nodiscard]] tern_act gelu_of(const ModelConfig& config, const char* key);
// A field that config.json may have, and whose value changes nothing.
[[nodiscard]] Field idle_field(const char* key, FieldValue like);

}  // namespace tern::models
