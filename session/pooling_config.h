// How a model of embeddings makes one vector of a text: sentence-transformers' modules.json with its modules' own
// config.json, config_sentence_transformers.json and sentence_bert_config.json, or a GGUF's pooling_type, read here and
// nowhere else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "models/encoder.h"

namespace tern::session {

using models::Pooling;

// What no file says is unset.
struct PoolingConfig {
  std::optional<Pooling> pooling;
  std::optional<bool> normalize;  // the vector has length 1
  std::string prompt;             // what stands before each text where nobody says otherwise (default_prompt_name)
};

// Of a directory, which says nothing without modules.json, or of a GGUF. Errors (data): a module that computes what
// tern does not, another pooling, a file that cannot be read.
[[nodiscard]] Result<PoolingConfig> read_pooling_config(const checkpoint::CheckpointSource& source);

}  // namespace tern::session
