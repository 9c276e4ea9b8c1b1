// The loss that keeps the experts of a mixture evenly used (Fedus et al., "Switch Transformers", 2021, equations 4 to
// 6), as transformers' load_balancing_loss_func has it: experts * sum over experts of f P, where f is how many of an
// expert's rows there are for each token and layer, and P the mean of its probability, over all tokens and layers.
//
// Both are of the whole optimizer step, so that no split of it changes the gradient: a step of several micro-batches
// runs them forward first, to count. transformers takes each micro-batch's own.
#pragma once

#include <vector>

#include "graph/differentiate.h"
#include "nn/context.h"

namespace tern::train {

// Graph inputs of what trains: other_counts [experts] f32, the rows of each expert in the step's other micro-batches,
// and balance_factor [1] f32, the loss's coefficient (times the loss scale) over the square of the step's tokens. Graph
// outputs: those of ExpertUse.
inline constexpr const char* kOtherCounts = "other_counts";
inline constexpr const char* kBalanceFactor = "balance_factor";
inline constexpr const char* kExpertCounts = "expert_counts";                // [experts] f32
inline constexpr const char* kExpertProbabilities = "expert_probabilities";  // [experts] f32

// How the experts were used, summed over tokens and layers.
struct ExpertUse {
  std::vector<double> counts;         // [experts] rows
  std::vector<double> probabilities;  // [experts]

  void add(const ExpertUse& more);
};

[[nodiscard]] double balance_loss(const ExpertUse& use);

// Adds the outputs, and for what trains a root for each router's logits. The graph's routers are of one width. Throws
// Failure (usage) where there are none.
void add_expert_balance(nn::Context& context, bool trains, std::vector<graph::Root>& roots);

}  // namespace tern::train
