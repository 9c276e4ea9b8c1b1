#include "graph/work.h"

#include <algorithm>

#include "ops/rules.h"

namespace tern::graph {

Work work_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts,
             std::span<const tern_host_array> lengths) {
  std::vector<TensorDesc> descs = graph.arg_descs(node.call);
  for (TensorDesc& desc : descs) {
    if (!is_present(desc) || desc.dynamic_dim < 0 || desc.count_slot >= counts.size()) continue;
    desc.shape[desc.dynamic_dim] = std::min(desc.shape[desc.dynamic_dim], counts[desc.count_slot]);
  }
  return ops::work_of({node.call.op, descs, node.call.attrs, node.call.accumulate}, lengths);
}

}  // namespace tern::graph
