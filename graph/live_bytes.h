// What memory a graph needs at least, before anything is planned or measured.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tern::graph {

// The most bytes of inputs, intermediates and outputs that are there at once while the nodes run in their order. A plan
// takes more where kernels want workspaces, or copies run beside them.
[[nodiscard]] std::uint64_t live_bytes(const Graph& graph);

}  // namespace tern::graph
