// The language model within a checkpoint that also sees or hears: its fields lie in text_config, or among those of the
// whole, and its tensors have names of their own.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_source.h"
#include "io/json.h"
#include "io/json_field.h"
#include "models/registry.h"

namespace tern::models {

// Whether config.json describes such a whole.
[[nodiscard]] bool has_text_part(const checkpoint::CheckpointSource& source);
// Those that are served, as `architectures` names them.
[[nodiscard]] std::vector<std::string> whole_names();
// The architecture of one's language model; "": any, as its text_config says. `name` is one of them.
[[nodiscard]] std::string whole_architecture(const std::string& name);

// What llama.cpp calls a GGUF of its language model, where that has a name of its own; else "".
[[nodiscard]] std::string whole_gguf(const std::string& name);
// The name in a GGUF of the language model of which a file of the whole's name is: "qwen3" of "qwen3vl". A name that
// is no whole's is its own.
[[nodiscard]] std::string part_of_gguf(const std::string& name);

// What describes the language model: text_config, with what it leaves to the whole (ends, dtype); or the whole without
// what describes its other parts. Whether embeddings are tied is what both say, else what the file has: some classes
// say it of the whole, some of the text, and what neither says hangs on the version that wrote them.
[[nodiscard]] io::Json text_part_json(const checkpoint::CheckpointSource& source);
// Its architecture. `text` is what text_part_json made of it. Throws Failure (data) where it isn't served.
[[nodiscard]] const Architecture& language_model_of(const io::JsonField& whole, const io::JsonField& text);

// The name that a tensor has in a checkpoint of the language model alone; empty for tensors of other parts. As
// transformers 5 saves them, and before: "model.language_model.layers.0..." and "language_model.model.layers.0..." are
// "model.layers.0...".
[[nodiscard]] std::string text_part_name(const std::string& tensor);
// What another part is called: "visual" of "model.visual.blocks.0...".
[[nodiscard]] std::string part_of(const std::string& tensor);

}  // namespace tern::models
