// What reading PEFT's files takes, wherever one of their tensors is looked for.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace tern::models {

inline constexpr const char* kPeftPrefix = "base_model.model.";  // before the model's own names

// What stands behind the last dot of a name: "q_proj".
[[nodiscard]] std::string last_part(const std::string& name);

// A tensor of floats, which the caller has made sure of. Throws Failure.
[[nodiscard]] std::vector<float> floats_of(const checkpoint::SafetensorsTensor& tensor);

}  // namespace tern::models
