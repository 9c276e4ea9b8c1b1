// Sliding windows that some layers have and others do not, and layers that positions do not turn, as transformers'
// later configurations say it.
#pragma once

#include <string>
#include <vector>

#include "models/config_fields.h"

namespace tern::models {

// use_sliding_window, sliding_window, max_window_layers and layer_types. A GGUF can say none of them: only a model
// without windows has a form there.
[[nodiscard]] std::vector<Field> layer_window_fields();

// The window of each layer, 0 where it sees every key: what layer_types says, else every layer from max_window_layers
// on; none without use_sliding_window.
[[nodiscard]] std::vector<std::int64_t> layer_windows(const ModelConfig& config);

// The types of layers.
inline constexpr const char* kSlidingType = "sliding_attention";
inline constexpr const char* kFullType = "full_attention";

// Where layer_types alone says which layers have a window, the others seeing every key: its row, with what stands in.
// A GGUF has no word for other types than what stands in there.
[[nodiscard]] Field layer_types_field(Default otherwise);
// Every `period`-th layer sees every key.
[[nodiscard]] std::vector<std::string> periodic_layer_types(const ModelConfig& config, std::int64_t period);
// layer_types of a model that is served without windows: full_attention for each layer, or none said.
[[nodiscard]] Field full_layer_types_field();
// Which layers positions turn, 1 for each that they do: no_rope_layers, and no_rope_layer_interval for a model that
// doesn't have it, of which every such layer is not turned. A GGUF says none of both: llama.cpp takes every fourth.
inline constexpr const char* kTurnedLayers = "no_rope_layers";
[[nodiscard]] std::vector<Field> turned_layer_fields();
// ModelConfig::sliding_window for each layer that has one, else 0.
[[nodiscard]] std::vector<std::int64_t> windows_by_type(const ModelConfig& config);

}  // namespace tern::models
