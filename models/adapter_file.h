// What reading PEFT's files takes, wherever one of their tensors is looked for.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/adapter_config.h"

namespace tern::models {

struct LinearModule;

inline constexpr const char* kOtherModel = "the adapter is of another model: name the one it was trained on";
inline constexpr const char* kPeftPrefix = "base_model.model.";  // before the model's own names

// What stands behind the last dot of a name: "q_proj".
[[nodiscard]] std::string last_part(const std::string& name);

// A tensor of floats, which the caller has made sure of. Throws Failure.
[[nodiscard]] std::vector<float> floats_of(const checkpoint::SafetensorsTensor& tensor);

// The same of any tensor: throws Failure (data) for one of another dtype. `where` is the file.
[[nodiscard]] std::vector<float> floats(const std::string& where, const checkpoint::SafetensorsTensor& tensor);

// Whether the file has an adapter of the module: then all its tensors, of the right shapes, which are put into `used`.
// Throws Failure (data): some of them alone, a wrong shape, a module that the configuration doesn't choose.
[[nodiscard]] bool find_tensors(const checkpoint::Safetensors& file, const std::string& where,
                                const AdapterConfig& config, const LinearModule& module, std::set<std::string>& used);

}  // namespace tern::models
