// Reverse-mode differentiation: appends the backward of a graph to it, from each op's own rule.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace tern::graph {

// Where a gradient comes from. Absent, it is the constant 1 of a loss of one number; else a value of the root's shape
// that the host fills (a loss over per-token log-probabilities that is computed there) or that is computed.
struct Root {
  Value value;
  Value gradient;
};

// A value whose gradient is asked for, and where it goes: `into` is a resource (or any value) that the gradient is
// added to, so that micro-steps accumulate; absent: a fresh gradient. A target that is a view has the gradient of the
// memory that it names, whichever views of it are used.
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

// Appends the gradient of the sum of all roots, and gives the gradient per target, absent where no path leads to it. A
// root may be used further, and may be a view; one that is named twice counts twice. Gradients of values used more than
// once are summed in the order of the reversed graph: fixed, whatever the device. Those of slices are put together in
// the gradient of the whole, with zeros where nothing is used.
std::vector<Value> differentiate(Graph& graph, std::span<const Root> roots, std::span<const GradTarget> targets,
                                 std::span<const RecomputeSegment> recompute = {});

}  // namespace tern::graph
