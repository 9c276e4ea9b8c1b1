// The C description of a segment, and its compilation.
#include "graph/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/philox.h"
#include "base/status.h"
#include "base/strings.h"
#include "graph/bind.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

// Equal exactly where the compiled graph is: every node's op and descs, and how values run between them.
std::string segment_key(const Graph& graph, std::span<const std::int32_t> nodes) {
  std::uint64_t hash = nodes.size();
  std::map<std::int32_t, std::int32_t> place;  // of a value among those met: ids themselves differ between graphs
  for (std::int32_t n : nodes) {
    const Node& node = graph.nodes()[index(n)];
    for (char c : op_desc(graph, node.call).key()) hash = mix_key(hash, static_cast<unsigned char>(c));
    for (const auto* values : {&node.call.inputs, &node.results}) {
      for (Value value : *values) {
        const auto at = place.try_emplace(value.id, static_cast<std::int32_t>(place.size())).first->second;
        hash = mix_key(hash, static_cast<std::uint64_t>(at));
      }
    }
  }
  return cat("graph of ", nodes.size(), " ops, ", hash);
}

// What a compilation needs beside the nodes.
struct Setting {
  const Graph& graph;
  const accel::DevicePtr& device;
  accel::ChoiceCache& choices;
  const Counts& typical_counts;
};

// The choice that was remembered may be gone: the device then chooses anew.
std::optional<accel::CompiledGraph> compile_desc(const Setting& setting, const std::string& key,
                                                 const tern_graph_desc& desc, std::string& refusal) {
  accel::PlanOptions options;
  options.choice = setting.choices.remembered(key);
  options.typical_counts = setting.typical_counts;
  options.workspace_limit = setting.device->info().largest_allocation_bytes;
  const auto dir = setting.choices.recipe_dir();
  auto out = accel::compile_graph(setting.device, desc, options, dir, refusal);
  if (!out && !options.choice.empty()) {
    const std::string gone = std::exchange(options.choice, "");
    out = accel::compile_graph(setting.device, desc, options, dir, refusal);
    if (out) {
      log_warn(cat(setting.device->name(), ": how a graph was compiled, ", gone,
                   ", is gone; tern chooses again, so the last bits may differ from earlier runs"));
    }
  }
  if (out) setting.choices.remember(key, out->info.choice);
  return out;
}

}  // namespace

std::vector<std::int32_t> recipe_arguments(const Graph& graph, std::span<const std::int32_t> nodes) {
  std::set<std::int32_t> inside(nodes.begin(), nodes.end());
  std::set<std::int32_t> touched;
  for (std::int32_t n : nodes) {
    const Node& node = graph.nodes()[index(n)];
    for (Value value : node.call.inputs) {
      if (value.present()) touched.insert(graph.info(value).storage);
    }
    for (Value value : node.results) {
      if (value.present()) touched.insert(graph.info(value).storage);
    }
  }
  // Storages that other nodes or the host touch as well.
  std::set<std::int32_t> outside;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (inside.contains(static_cast<std::int32_t>(n))) continue;
    const Node& node = graph.nodes()[n];
    for (Value value : node.call.inputs) {
      if (value.present()) outside.insert(graph.info(value).storage);
    }
    for (Value value : node.results) {
      if (value.present()) outside.insert(graph.info(value).storage);
    }
  }
  std::vector<std::int32_t> out;
  for (std::int32_t storage : touched) {
    const Storage& info = graph.storages()[index(storage)];
    if (info.kind != StorageKind::intermediate || info.is_output || outside.contains(storage)) out.push_back(storage);
  }
  return out;
}

namespace {

std::optional<accel::CompiledGraph> compile_as_one(const Setting& setting, std::span<const std::int32_t> nodes,
                                                   const std::string& key, std::string& refusal) {
  const Graph& graph = setting.graph;
  const std::vector<std::int32_t> arguments = recipe_arguments(graph, nodes);
  std::map<std::int32_t, std::int32_t> argument_of;
  for (std::size_t a = 0; a < arguments.size(); ++a) argument_of[arguments[a]] = static_cast<std::int32_t>(a);

  std::vector<tern_graph_value> values;
  std::map<std::int32_t, std::int32_t> value_of;
  const auto value_index = [&](Value value) {
    if (!value.present()) return std::int32_t{-1};
    const auto [place, is_new] = value_of.try_emplace(value.id, static_cast<std::int32_t>(values.size()));
    if (!is_new) return place->second;
    const ValueInfo& info = graph.info(value);
    const Storage& storage = graph.storages()[index(info.storage)];
    tern_graph_value made{};
    made.desc = info.desc;
    made.state = info.storage;
    made.version = info.version;
    made.offset = info.offset;
    const auto argument = argument_of.find(info.storage);
    made.argument = argument == argument_of.end() ? -1 : argument->second;
    switch (storage.kind) {
      case StorageKind::input:
        made.kind = TERN_VALUE_INPUT;
        break;
      case StorageKind::constant:
        made.kind = TERN_VALUE_CONSTANT;
        break;
      case StorageKind::resource:
        made.kind = TERN_VALUE_STATE;
        break;
      case StorageKind::intermediate:
        made.kind = storage.is_output    ? TERN_VALUE_OUTPUT
                    : made.argument >= 0 ? TERN_VALUE_STATE
                                         : TERN_VALUE_INTERMEDIATE;
        break;
    }
    values.push_back(made);
    return place->second;
  };

  std::vector<std::vector<std::int32_t>> wires;
  wires.reserve(2 * nodes.size());
  std::vector<tern_graph_node> made_nodes;
  std::uint32_t host_arrays = 0;
  for (std::int32_t n : nodes) {
    const Node& node = graph.nodes()[index(n)];
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    for (Value value : node.call.inputs) inputs.push_back(value_index(value));
    for (Value value : node.results) outputs.push_back(value_index(value));
    wires.push_back(std::move(inputs));
    wires.push_back(std::move(outputs));
    tern_graph_node made{};
    made.op = {sizeof(tern_op_desc),
               node.call.op,
               node.call.needs,
               node.call.accumulate,
               static_cast<std::uint32_t>(node.call.inputs.size()),
               static_cast<std::uint32_t>(node.call.attrs.size()),
               nullptr,
               node.call.attrs.empty() ? nullptr : node.call.attrs.data(),
               nullptr};
    made.lane = static_cast<std::uint32_t>(node.lane);
    made.first_host_array = host_arrays;
    made.inputs = wires[wires.size() - 2].data();
    made.outputs = wires.back().data();
    host_arrays += static_cast<std::uint32_t>(ops::op_spec(node.call.op).num_lengths());
    made_nodes.push_back(made);
  }
  tern_graph_desc desc{};
  desc.size = sizeof(desc);
  desc.num_values = static_cast<std::uint32_t>(values.size());
  desc.num_nodes = static_cast<std::uint32_t>(made_nodes.size());
  desc.num_arguments = static_cast<std::uint32_t>(arguments.size());
  desc.values = values.data();
  desc.nodes = made_nodes.data();

  return compile_desc(setting, key, desc, refusal);
}

// In two at a node border, and again, down to single nodes.
void compile_parts(const Setting& setting, std::span<const std::int32_t> nodes, std::vector<CompiledPart>& out) {
  const std::string key = segment_key(setting.graph, nodes);
  const std::string halves = cat("halves of ", key);
  std::string refusal;
  if (nodes.size() == 1 || setting.choices.remembered(halves).empty()) {
    if (auto compiled = compile_as_one(setting, nodes, key, refusal)) {
      out.push_back({{nodes.begin(), nodes.end()}, std::move(*compiled)});
      return;
    }
  }
  if (nodes.size() == 1) {
    const Node& node = setting.graph.nodes()[index(nodes[0])];
    throw Failure(device_error(
        cat("op ", ops::op_spec(node.call.op).name, " on ", setting.device->name(), " can't be compiled even alone",
            refusal.empty() ? "" : ": ", refusal),
        "choose another --device, and tell the authors of its backend, which had said that it takes this op"));
  }
  setting.choices.remember(halves, "yes");
  compile_parts(setting, nodes.first(nodes.size() / 2), out);
  compile_parts(setting, nodes.subspan(nodes.size() / 2), out);
}

}  // namespace

std::vector<CompiledPart> compile_segment(const Graph& graph, std::span<const std::int32_t> nodes,
                                          const accel::DevicePtr& device, accel::ChoiceCache& choices,
                                          const Counts& typical_counts) {
  std::vector<CompiledPart> out;
  compile_parts({graph, device, choices, typical_counts}, nodes, out);
  return out;
}

}  // namespace tern::graph
