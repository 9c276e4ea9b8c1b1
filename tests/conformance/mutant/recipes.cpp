// Whole graphs: those of one node are spoiled like kernels.
#include "mutant/world.h"

namespace tern::mutant {
namespace {

// What a desc of one node says, with memory of its own.
void keep_node(const tern_graph_desc& graph, Compiled& compiled) {
  const tern_graph_node& node = graph.nodes[0];
  Planned& planned = compiled.planned;
  planned.args.resize(node.op.num_args);
  compiled.arguments.assign(node.op.num_args, -1);
  for (std::size_t i = 0; i < planned.args.size(); ++i) {
    const std::int32_t value = node.inputs[i] >= 0 ? node.inputs[i] : node.outputs[i];
    if (value < 0) continue;
    planned.args[i] = graph.values[value].desc;
    compiled.arguments[i] = graph.values[value].argument;
  }
  const auto* attrs = static_cast<const std::byte*>(node.op.attrs);
  if (attrs != nullptr) planned.attrs.assign(attrs, attrs + node.op.attrs_size);
  planned.desc = node.op;
  planned.desc.args = planned.args.data();
  planned.desc.attrs = planned.attrs.data();
  planned.desc.alias = nullptr;
}

}  // namespace

tern_status compile(tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                    tern_recipe* out, tern_plan_info* info) {
  auto made = std::make_unique<Compiled>();
  const tern_status status = world->inner->compile(device, graph, options, &made->inner, info);
  if (status != TERN_OK) return status;
  made->num_arguments = graph->num_arguments;
  if (graph->num_nodes == 1) keep_node(*graph, *made);
  made->planned.given = &graph->nodes[0].op;
  made->planned.device = device;
  made->planned.workspace = info->workspace_bytes;
  if (made->is_one_node() && concerns(made->planned.desc.op)) {
    spoil_plan(options, *info);
    Bytes changed = made->planned.attrs;
    if (world->plan.mistake == Mistake::wrong_attribute &&
        change_attribute(made->planned.desc.op, world->plan.arg, changed)) {
      tern_graph_node node = graph->nodes[0];
      node.op.attrs = changed.data();
      tern_graph_desc other = *graph;
      other.nodes = &node;
      made->planned.other_info.size = sizeof(made->planned.other_info);
      if (world->inner->compile(device, &other, nullptr, &made->other, &made->planned.other_info) != TERN_OK) {
        made->other = nullptr;
      }
    }
  }
  *out = reinterpret_cast<tern_recipe>(made.release());
  return TERN_OK;
}

namespace {

// The launch of one binding: recipes stand where bound kernels do.
BoundRecord& record_of(Compiled& compiled, const tern_tensor* arguments, tern_plane workspace) {
  std::string key;
  for (const std::int32_t argument : compiled.arguments) {
    if (argument < 0) continue;
    const auto* bytes = reinterpret_cast<const char*>(arguments[argument].planes);
    key.append(bytes, sizeof(arguments[argument].planes));
  }
  std::unique_ptr<BoundRecord>& record = compiled.records[key];
  if (record) return *record;
  record = std::make_unique<BoundRecord>();
  record->plan = &compiled.planned;
  record->bound.desc = compiled.planned.desc;
  record->bound.inner = reinterpret_cast<tern_bound>(compiled.inner);
  record->bound.other = reinterpret_cast<tern_bound>(compiled.other);
  for (std::size_t i = 0; i < compiled.arguments.size(); ++i) {
    record->bound.args.push_back(compiled.arguments[i] < 0 ? tern_tensor{} : arguments[compiled.arguments[i]]);
  }
  if (concerns(compiled.planned.desc.op) && world->plan.mistake == Mistake::stale_workspace) {
    record->bound.extra = tern_plane{workspace.buffer, workspace.offset + compiled.planned.workspace + 63};
  }
  const std::uint64_t bytes = compiled.planned.other_info.workspace_bytes;
  if (compiled.other != nullptr && bytes > 0 &&
      world->inner->buffer_create(compiled.planned.device, bytes, 0, &record->other_workspace) != TERN_OK) {
    record->bound.other = nullptr;
  }
  return *record;
}

}  // namespace

tern_status launch_recipe(tern_recipe raw, const tern_bind_args* args, const tern_host_args* host_args,
                          tern_stream stream) {
  auto* compiled = reinterpret_cast<Compiled*>(raw);
  const std::vector<tern_tensor> given(args->args, args->args + compiled->num_arguments);
  const auto inner = [=, all = *args](tern_bound bound, const Lengths& lengths) {
    const LengthsView view(lengths);
    auto* recipe = reinterpret_cast<tern_recipe>(bound);
    tern_bind_args own = all;
    own.args = given.data();
    if (recipe != compiled->inner) {
      own.workspace = {record_of(*compiled, given.data(), all.workspace).other_workspace, 0};
    }
    const tern_status status = world->inner->launch_recipe(recipe, &own, view.get(), stream);
    return status != TERN_OK ? status : world->inner->stream_synchronize(stream);
  };
  if (!compiled->is_one_node() || is_transparent())
    return world->inner->launch_recipe(compiled->inner, args, host_args, stream);
  return launch_record(record_of(*compiled, args->args, args->workspace), host_args, stream, inner);
}

tern_status recipe_destroy(tern_recipe raw) {
  flush();
  const std::unique_ptr<Compiled> compiled(reinterpret_cast<Compiled*>(raw));
  for (auto& [key, record] : compiled->records) {
    let_go(*record);
  }
  if (compiled->other != nullptr) world->inner->recipe_destroy(compiled->other);
  return world->inner->recipe_destroy(compiled->inner);
}

tern_status recipe_save(tern_recipe recipe, void* data, std::uint64_t capacity, std::uint64_t* bytes) {
  return world->inner->recipe_save(reinterpret_cast<Compiled*>(recipe)->inner, data, capacity, bytes);
}

tern_status recipe_load(tern_device device, const tern_graph_desc* graph, const void* data, std::uint64_t bytes,
                        tern_recipe* out, tern_plan_info* info) {
  auto made = std::make_unique<Compiled>();
  const tern_status status = world->inner->recipe_load(device, graph, data, bytes, &made->inner, info);
  if (status != TERN_OK) return status;
  made->num_arguments = graph->num_arguments;
  *out = reinterpret_cast<tern_recipe>(made.release());
  return TERN_OK;
}

}  // namespace tern::mutant
