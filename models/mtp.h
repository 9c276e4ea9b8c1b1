// Multi-token prediction (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.2): a layer behind a model's
// own, in the same checkpoint, that makes one state of the model's and of the next token's word and guesses the token
// behind.
#pragma once

#include <memory>

#include "checkpoint/checkpoint_source.h"
#include "models/config.h"
#include "models/speculative_head.h"

namespace tern::models {

// The first such layer of a model; its weights are read by SpeculativeHead::load from the checkpoint that the model
// came from. Errors (data): the model has none, its checkpoint was saved without, or is a GGUF.
[[nodiscard]] Result<std::unique_ptr<SpeculativeHead>> open_mtp(std::shared_ptr<checkpoint::CheckpointSource> source,
                                                                const ModelConfig& model);

}  // namespace tern::models
