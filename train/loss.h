// Losses by name: what stands behind a model's hidden states in a training graph. A loss is a weighted sum over its own
// units, with weights fixed from the whole optimizer step, so that any split of the step gives the same gradient.
#pragma once

#include <span>
#include <string_view>

#include "train/training_graph.h"

namespace tern::train {

// The graph that a loss adds itself to.
struct LossContext {
  nn::Context& nn;
  const models::LoadedModel& model;
  const TrainingGraphOptions& options;
  ops::Value hidden;                                      // [tokens, hidden_size]
  const std::map<std::string, ops::Value>& accumulators;  // of the trained weights' gradients, by stored name
};

struct Loss {
  std::string_view name;
  // Adds inputs and nodes; gives the sum [1] f32.
  ops::Value (*build)(const LossContext& at);
};

[[nodiscard]] std::span<const Loss> losses();
// Errors (usage): a name that no loss has.
[[nodiscard]] Result<const Loss*> find_loss(std::string_view name);

}  // namespace tern::train
