#include "graph/graph.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "ops/program_ops.h"
#include "ops/rules.h"

namespace tern::graph {
namespace {

std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }

bool has_bit(std::uint32_t bits, std::size_t index) { return ((bits >> index) & 1U) != 0; }

bool adds(const OpCall& call, const ops::OpSpec& spec, std::size_t arg) {
  return spec.args[arg].role == ops::Role::state ||
         (spec.args[arg].role == ops::Role::output && has_bit(call.accumulate, arg));
}

// Of a call's input at this argument, only the place counts.
bool is_place(const OpCall& call, const ops::OpSpec& spec, std::size_t arg) {
  return spec.args[arg].role == ops::Role::output && call.inputs[arg].present() && !has_bit(call.accumulate, arg);
}

bool same_layout(const TensorDesc& a, const TensorDesc& b) {
  return a.dtype == b.dtype && same_shape(a, b) && std::equal(a.strides, a.strides + a.rank, b.strides);
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

Value Graph::buffer(const TensorDesc& desc) {
  Storage storage;
  storage.desc = desc;
  storage.name = cat("buffer.", storages_.size());
  ValueInfo info;
  info.desc = desc;
  info.storage = static_cast<std::int32_t>(storages_.size());
  storages_.push_back(std::move(storage));
  newest_.push_back(add_value(info));
  return newest_.back();
}

Value Graph::host_resource(std::string name, const TensorDesc& desc) {
  return add_source({.kind = StorageKind::resource, .desc = desc, .name = std::move(name), .on_host = true});
}

Value Graph::source_like(const Storage& storage, const TensorDesc& desc) {
  if (storage.kind == StorageKind::intermediate) return buffer(desc);
  // Every field by name: one that is added does not compile until somebody says whether it is copied.
  const auto& [kind, first_desc, name, versions, is_output, padding, on_host] = storage;
  return add_source({.kind = kind, .desc = desc, .name = name, .padding = padding, .on_host = on_host});
}

void Graph::annotate_last_like(const Node& node) {
  const auto& [call, results, lane, on_host] = node;
  nodes_.back().lane = lane;
  nodes_.back().on_host = on_host;
}

Value Graph::latest(Value value) {
  const ValueInfo from = info(value);
  const Value newest = newest_[static_cast<std::size_t>(from.storage)];
  const ValueInfo to = info(newest);
  if (to.version == from.version) return value;
  if (to.offset == from.offset && same_layout(to.desc, from.desc)) return newest;
  return view(newest, from.desc, from.offset - to.offset);
}

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

void Graph::require_written(const OpCall& call) const {
  const ops::OpSpec& spec = ops::op_spec(call.op);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present() || is_place(call, spec, i)) continue;
    const ValueInfo& used = info(call.inputs[i]);
    if (used.producer < 0 && storage_of(call.inputs[i]).kind == StorageKind::intermediate) {
      throw std::logic_error(
          cat("graph: ", spec.name, " reads ", storage_of(call.inputs[i]).name, ", which nothing has written"));
    }
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
  require_written(call);
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
    if (adds(call, spec, i) && !call.inputs[i].present()) {
      throw std::logic_error(cat("graph: ", spec.name, " writes ", spec.args[i].name, " upon nothing"));
    }
    if (call.inputs[i].present()) {
      if (is_place(call, spec, i) && !same_layout(made.desc, desc(call.inputs[i]))) {
        throw std::logic_error(cat("graph: ", spec.name, ": ", spec.args[i].name, " is ", to_string(made.desc),
                                   ", and it is placed on ", to_string(desc(call.inputs[i]))));
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

// Whether the nodes since the one that made `value` leave it and that storage alone, and that node itself does not read
// from there.
bool Graph::is_free_to_move(Value value, std::int32_t to_storage) const {
  const ValueInfo& moved = info(value);
  const Storage& own = storage_of(value);
  if (moved.producer < 0 || moved.base >= 0 || own.kind != StorageKind::intermediate || own.versions != 1 ||
      own.is_output || moved.storage == to_storage) {
    return false;
  }
  for (std::size_t v = at(value) + 1; v < values_.size(); ++v) {
    if (values_[v].storage == moved.storage) return false;
  }
  for (std::size_t n = static_cast<std::size_t>(moved.producer); n < nodes_.size(); ++n) {
    const OpCall& call = nodes_[n].call;
    const bool makes_it = n == static_cast<std::size_t>(moved.producer);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.inputs[i].present()) continue;
      const std::int32_t used = info(call.inputs[i]).storage;
      if (used == moved.storage) return false;
      if (used == to_storage && !(makes_it && is_place(call, ops::op_spec(call.op), i))) return false;
    }
  }
  return true;
}

bool Graph::write_at(Value value, Value place) {
  const ValueInfo moved = info(value);
  ValueInfo to = info(place);
  const TensorDesc made = moved.desc;
  if (made.dtype != to.desc.dtype || !same_shape(made, to.desc) || !is_free_to_move(value, to.storage)) return false;
  Node& node = nodes_[static_cast<std::size_t>(moved.producer)];
  const auto arg =
      static_cast<std::size_t>(std::find(node.results.begin(), node.results.end(), value) - node.results.begin());
  OpCall call = node.call;
  call.outputs[arg] = to.desc;
  if (!ops::check_call(call.op, arg_descs(call), call.attrs, call.accumulate).empty()) return false;
  if (to.producer == moved.producer) {  // another output of the node lies there already: both wrote upon one version
    const auto other = std::find_if(node.results.begin(), node.results.end(), [&](Value result) {
      return result.present() && info(result).storage == to.storage;
    });
    const Value before = node.call.inputs[static_cast<std::size_t>(other - node.results.begin())];
    place = view(before, to.desc, to.offset - info(before).offset);
  }
  call.inputs[arg] = place;
  node.call = std::move(call);
  ValueInfo& result = values_[at(value)];
  result.desc = to.desc;
  result.storage = to.storage;
  result.offset = to.offset;
  result.version = storages_[static_cast<std::size_t>(to.storage)].versions++;
  newest_[static_cast<std::size_t>(to.storage)] = value;
  newest_[static_cast<std::size_t>(moved.storage)] = {};
  return true;
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

}  // namespace tern::graph
