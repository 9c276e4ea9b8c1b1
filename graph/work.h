// What a node must compute and move at least: the measure that achieved rates are told against.
#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/facts.h"

namespace tern::graph {

using ops::Work;

// `counts`: actual entries of dynamic dimensions, by slot. `lengths`: the node's length arguments in the table's order.
[[nodiscard]] Work work_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts,
                           std::span<const tern_host_array> lengths);

}  // namespace tern::graph
