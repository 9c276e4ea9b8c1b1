// Rotary positions scaled otherwise than the model's own config says, as --rope_scaling asks for.
#pragma once

#include <cstdint>
#include <string>

#include "models/config.h"

namespace tern::models {

struct RopeOverride {
  std::string scaling;             // "linear", "yarn" or rope_parameters as a JSON object; "": none
  std::int64_t max_model_len = 0;  // what the context becomes; 0: the original one times the factor
};

// Sets scaling, factor and context (max_position_embeddings), also in what is written as config.json. The original
// context is what the override says, else what the model's own scaling began with, else the model's; without a factor
// it is the least whole number that reaches max_model_len, as ms-swift has it. Returns a line that tells what positions
// are now; "" where nothing changed. Throws Failure: usage, where the two do not make a scaling or the model has none
// that could change; data, for a field in the object.
[[nodiscard]] std::string override_rope(const RopeOverride& wanted, ModelConfig& config);

}  // namespace tern::models
