// Graphs made of other graphs' nodes.
#include <stdexcept>

#include "graph/graph.h"
#include "ops/program_ops.h"

namespace tern::graph {

Value map_value(const Graph& from, Value value, Graph& to, std::vector<Value>& map) {
  if (!value.present()) return {};
  Value& known = map[static_cast<std::size_t>(value.id)];
  if (known.present()) return known;
  const ValueInfo& info = from.info(value);
  if (info.base >= 0) {
    const Value base = map_value(from, {info.base}, to, map);
    known = to.view(base, info.desc, info.offset - from.info({info.base}).offset);
    return known;
  }
  if (info.producer >= 0) throw std::logic_error("graph: a value is used before its node was copied");
  return known = to.source_like(from.storage_of(value), info.desc);
}

void copy_node(const Graph& from, const Node& node, Graph& to, std::vector<Value>& map) {
  OpCall call = node.call;
  for (Value& value : call.inputs) value = map_value(from, value, to, map);
  const std::vector<Value> results = to.emit(call);
  to.annotate_last_like(node);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (node.results[i].present()) map[static_cast<std::size_t>(node.results[i].id)] = results[i];
  }
}

Graph remove_dead_nodes(const Graph& graph) {
  std::vector<bool> live_storage(graph.storages().size(), false);
  for (std::size_t s = 0; s < live_storage.size(); ++s) {
    live_storage[s] = graph.storages()[s].is_output || graph.storages()[s].kind == StorageKind::resource;
  }
  const auto nodes = graph.nodes();
  std::vector<bool> live(nodes.size(), false);
  for (std::size_t n = nodes.size(); n-- > 0;) {
    live[n] = ops::has_effect(nodes[n].call.op);
    for (Value result : nodes[n].results) {
      if (result.present() && live_storage[static_cast<std::size_t>(graph.info(result).storage)]) live[n] = true;
    }
    if (!live[n]) continue;
    for (Value used : nodes[n].call.inputs) {
      if (used.present()) live_storage[static_cast<std::size_t>(graph.info(used).storage)] = true;
    }
  }
  Graph out;
  std::vector<Value> map(graph.values().size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (live[n]) copy_node(graph, nodes[n], out, map);
  }
  for (const Output& output : graph.outputs()) out.output(output.name, map_value(graph, output.value, out, map));
  return out;
}

}  // namespace tern::graph
