// What a node must compute and move at least: the measure that achieved rates are told against.
#pragma once

#include <span>

#include "graph/graph.h"

namespace tern::graph {

struct Work {
  double flops = 0;  // of matrix products and attention; 2 a multiply-add. Elementwise ops count none
  double bytes = 0;  // each argument read or written once; of tables and caches only the rows touched
};

// `counts`: actual entries of dynamic dimensions, by slot. `lengths`: the node's length arguments in the table's order.
[[nodiscard]] Work work_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts,
                           std::span<const tern_host_array> lengths);

}  // namespace tern::graph
