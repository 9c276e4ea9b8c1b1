#include "graph/graph.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "ops/program_ops.h"
#include "ops/rules.h"

namespace tern::graph {
namespace {

bool has_bit(std::uint32_t bits, std::size_t index) { return ((bits >> index) & 1U) != 0; }

// Writes on the memory of its input at this argument: a state, or an output asked to accumulate.
bool writes_in_place(const OpCall& call, const ops::OpSpec& spec, std::size_t arg) {
  return spec.args[arg].role == ops::Role::state ||
         (spec.args[arg].role == ops::Role::output && has_bit(call.accumulate, arg));
}

// Where a node runs unless it is told otherwise.
Lane lane_of(std::uint32_t op) {
  if (ops::is_collective(op)) return Lane::comm;
  if (op == ops::kCopyToHost) return Lane::copy_out;
  return ops::is_program_op(op) ? Lane::copy_in : Lane::compute;
}

}  // namespace

Value Graph::add_value(const ValueInfo& info) {
  values_.push_back(info);
  return {static_cast<std::int32_t>(values_.size()) - 1};
}

Value Graph::add_source(Storage storage) {
  if (find(storage.name).present()) throw std::logic_error(cat("graph: the name ", storage.name, " is taken"));
  ValueInfo info;
  info.desc = storage.desc;
  info.storage = static_cast<std::int32_t>(storages_.size());
  storages_.push_back(std::move(storage));
  const Value value = add_value(info);
  newest_.push_back(value);
  return value;
}

Value Graph::input(std::string name, const TensorDesc& desc, Padding padding) {
  return add_source({.kind = StorageKind::input, .desc = desc, .name = std::move(name), .padding = padding});
}
Value Graph::constant(std::string name, const TensorDesc& desc) {
  return add_source({.kind = StorageKind::constant, .desc = desc, .name = std::move(name)});
}
Value Graph::resource(std::string name, const TensorDesc& desc) {
  return add_source({.kind = StorageKind::resource, .desc = desc, .name = std::move(name)});
}

Value Graph::host_resource(std::string name, const TensorDesc& desc) {
  return add_source({.kind = StorageKind::resource, .desc = desc, .name = std::move(name), .on_host = true});
}

Value Graph::source_like(const Storage& storage, const TensorDesc& desc) {
  if (storage.kind == StorageKind::intermediate) throw std::logic_error("graph: an intermediate without a producer");
  // Every field by name: one that is added does not compile until somebody says whether it is copied.
  const auto& [kind, first_desc, name, versions, is_output, padding, on_host] = storage;
  return add_source({.kind = kind, .desc = desc, .name = name, .padding = padding, .on_host = on_host});
}

void Graph::annotate_last_like(const Node& node) {
  const auto& [call, results, lane, on_host] = node;
  nodes_.back().lane = lane;
  nodes_.back().on_host = on_host;
}

Value Graph::latest(Value value) const { return newest_[static_cast<std::size_t>(info(value).storage)]; }

Value Graph::find(std::string_view name) const {
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    if (storages_[s].kind == StorageKind::intermediate || storages_[s].name != name) continue;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].storage == static_cast<std::int32_t>(s)) return {static_cast<std::int32_t>(v)};
    }
  }
  return {};
}

void Graph::output(std::string name, Value value) {
  outputs_.push_back({std::move(name), value});
  storages_[static_cast<std::size_t>(info(value).storage)].is_output = true;
}

Value Graph::view(Value value, const TensorDesc& desc, std::int64_t offset) {
  const ValueInfo& base = info(value);
  if (is_quantised(base.desc) || base.desc.layout != 0) {
    throw std::logic_error(cat("graph: no view of ", to_string(base.desc)));
  }
  if (desc.dtype != base.desc.dtype) throw std::logic_error("graph: a view keeps the dtype");
  ValueInfo made = base;
  made.desc = desc;
  made.offset += offset;
  made.base = value.id;
  return add_value(made);
}

// Kernels and collectives work on the device's memory; a copy between the two has one argument in each.
void Graph::require_memory(const OpCall& call) const {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present()) continue;
    const bool wants_host =
        (call.op == ops::kCopyToDevice && i == ops::kProgramX) || (call.op == ops::kCopyToHost && i == ops::kProgramY);
    if (storage_of(call.inputs[i]).on_host == wants_host) continue;
    const ops::OpSpec& spec = ops::op_spec(call.op);
    throw std::logic_error(cat("graph: ", spec.name, " takes ", spec.args[i].name, " in the memory of the ",
                               wants_host ? "host" : "device", ", and ", storage_of(call.inputs[i]).name,
                               " lies in the other"));
  }
}

void Graph::require_current(Value value, const OpCall& call) const {
  if (value.id < 0 || static_cast<std::size_t>(value.id) >= values_.size()) {
    throw std::logic_error(cat("graph: ", ops::op_spec(call.op).name, " takes a value of another graph"));
  }
  const ValueInfo& used = info(value);
  const Storage& storage = storages_[static_cast<std::size_t>(used.storage)];
  if (used.version != storage.versions - 1) {
    throw std::logic_error(cat("graph: ", ops::op_spec(call.op).name, " reads version ", used.version, " of ",
                               storage.name, " after version ", storage.versions - 1, " was written"));
  }
}

std::vector<TensorDesc> Graph::arg_descs(const OpCall& call) const {
  std::vector<TensorDesc> descs(call.outputs.size(), absent_desc());
  for (std::size_t i = 0; i < descs.size(); ++i) {
    if (is_present(call.outputs[i])) {
      descs[i] = call.outputs[i];
    } else if (call.inputs[i].present()) {
      descs[i] = desc(call.inputs[i]);
    }
  }
  return descs;
}

std::vector<Value> Graph::emit(const OpCall& call) {
  const ops::OpSpec& spec = ops::op_spec(call.op);
  const std::size_t count = spec.args.size();
  if (call.inputs.size() != count || call.outputs.size() != count) {
    throw std::logic_error(cat("graph: ", spec.name, " has ", count, " arguments"));
  }
  for (Value value : call.inputs) {
    if (value.present()) require_current(value, call);
  }
  require_memory(call);
  if (const std::string why = ops::check_call(call.op, arg_descs(call), call.attrs, call.accumulate); !why.empty()) {
    throw std::logic_error(cat("graph: ", spec.name, ": ", why));
  }
  Node node;
  node.call = call;
  node.lane = lane_of(call.op);
  node.results.assign(count, {});
  const auto node_index = static_cast<std::int32_t>(nodes_.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (spec.args[i].role == ops::Role::input || !is_present(call.outputs[i])) continue;
    ValueInfo made;
    made.desc = call.outputs[i];
    made.producer = node_index;
    if (writes_in_place(call, spec, i)) {
      if (!call.inputs[i].present()) {
        throw std::logic_error(cat("graph: ", spec.name, " writes ", spec.args[i].name, " upon nothing"));
      }
      const ValueInfo before = info(call.inputs[i]);
      Storage& storage = storages_[static_cast<std::size_t>(before.storage)];
      if (storage.kind == StorageKind::constant || storage.kind == StorageKind::input) {
        throw std::logic_error(cat("graph: ", spec.name, " writes on ", storage.name, ", which is only read"));
      }
      made.storage = before.storage;
      made.offset = before.offset;
      made.version = storage.versions++;
    } else {
      Storage storage;
      storage.desc = call.outputs[i];
      storage.name = cat(spec.name, ".", nodes_.size(), ".", spec.args[i].name);
      storages_.push_back(std::move(storage));
      newest_.push_back({});
      made.storage = static_cast<std::int32_t>(storages_.size()) - 1;
    }
    node.results[i] = add_value(made);
    newest_[static_cast<std::size_t>(made.storage)] = node.results[i];
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().results;
}

std::string Graph::to_text() const {
  std::string out;
  for (const Node& node : nodes_) {
    const ops::OpSpec& spec = ops::op_spec(node.call.op);
    for (std::size_t i = 0; i < spec.args.size(); ++i) {
      if (node.results[i].present()) out += cat("%", node.results[i].id, ":", to_string(desc(node.results[i])), " ");
    }
    out += cat("= ", spec.name, "(");
    for (std::size_t i = 0; i < spec.args.size(); ++i) {
      if (node.call.inputs[i].present()) out += cat(" ", spec.args[i].name, "=%", node.call.inputs[i].id);
    }
    out += cat(" )", node.on_host ? " @host" : "", node.call.accumulate != 0 ? " accumulate" : "", "\n");
  }
  return out;
}

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
