// The pass that cuts what a device can't allocate at once.
#pragma once

#include "accel/device.h"
#include "graph/graph.h"

namespace tern::graph {

// The same graph with every weight, state and intermediate that is larger than the device allocates at a time cut into
// parts of rows (graph/row_parts.h), each a storage of its own by part_name, and every op on one computed part by part
// as its rules say (ops/facts.h, Split). Throws Failure (device) where an op can't be, or where an output of the graph
// is too large.
[[nodiscard]] Graph split_rows(const Graph& graph, const accel::Device& device);

}  // namespace tern::graph
