// Reverse-mode differentiation: appends the backward of a graph to it, from each op's own rule.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace tern::graph {

// A value whose gradient is asked for, and where it goes: `into` is a resource (or any value) that the gradient is
// added to, so that micro-steps accumulate; absent: a fresh gradient.
struct GradTarget {
  Value value;
  Value into;
};

// Nodes [begin, end) whose intermediates are not kept for the backward but computed again there (gradient
// checkpointing; Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). Segments do not overlap and rise.
struct RecomputeSegment {
  std::int32_t begin;
  std::int32_t end;
};

// Appends the gradient of `loss` [1] and gives the gradient per target, absent where no path leads to it. Gradients of
// values used more than once are summed in the order of the reversed graph: fixed, whatever the device.
std::vector<Value> differentiate(Graph& graph, Value loss, std::span<const GradTarget> targets,
                                 std::span<const RecomputeSegment> recompute = {});

}  // namespace tern::graph
