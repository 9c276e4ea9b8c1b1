// The head of EAGLE-3 (Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
// Training-Time Test", 2025), as SafeAILab/EAGLE, SpecForge and speculators publish it: one layer of Llama's kind that
// attends to a word and a state side by side, states that `fc` makes of three of the model's streams, and often a
// smaller vocabulary of its own.
#pragma once

#include <memory>

#include "checkpoint/checkpoint_source.h"
#include "models/config.h"
#include "models/speculative_head.h"

namespace tern::models {

// Reads the head's config.json, and which tokens its vocabulary has, for a model of that configuration; its weights are
// read by SpeculativeHead::load. Errors (data): it's no such head, or one of another model: its size, its vocabulary,
// its layers.
[[nodiscard]] Result<std::unique_ptr<SpeculativeHead>> open_eagle3(std::shared_ptr<checkpoint::CheckpointSource> source,
                                                                   const ModelConfig& model);

}  // namespace tern::models
