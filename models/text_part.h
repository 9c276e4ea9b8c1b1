// The language model within a checkpoint that also sees or hears: its fields lie in text_config, and its tensors have
// names of their own.
#pragma once

#include <string>

#include "checkpoint/checkpoint_source.h"
#include "io/json.h"

namespace tern::models {

// Whether config.json describes such a whole.
[[nodiscard]] bool has_text_part(const checkpoint::CheckpointSource& source);

// What describes the language model: text_config, with what it leaves to the whole (ends, dtype, tied embeddings).
[[nodiscard]] io::Json text_part_json(const io::Json& whole);

// The name that a tensor has in a checkpoint of the language model alone; empty for tensors of other parts. As
// transformers 5 saves them, and before: "model.language_model.layers.0..." and "language_model.model.layers.0..." are
// "model.layers.0...".
[[nodiscard]] std::string text_part_name(const std::string& tensor);
// What another part is called: "visual" of "model.visual.blocks.0...".
[[nodiscard]] std::string part_of(const std::string& tensor);

}  // namespace tern::models
