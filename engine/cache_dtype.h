// Which dtypes keys and values are kept in, beside those of floats: 8 bits over a scale for each token and head
// (ops/kv_write.h).
#pragma once

#include <optional>
#include <string_view>

#include "accel/device.h"
#include "base/status.h"
#include "models/registry.h"

namespace tern::engine {

// The names of vLLM: "fp8" and "fp8_e4m3", "int8"; else those of config.json. None: auto.
[[nodiscard]] std::optional<tern_dtype> cache_dtype_from_name(std::string_view name);
[[nodiscard]] std::string_view cache_dtype_name(tern_dtype dtype);  // "int8", "fp8", "bfloat16"

// Whether the model's caches can be in `dtype` on the device: asked before weights are read. Errors (usage): 8 bits for
// a model that keeps no keys and values, and on a device whose attention reads none.
[[nodiscard]] Status check_cache_dtype(const accel::Device& device, const models::ModelConfig& config,
                                       tern_dtype dtype);

}  // namespace tern::engine
