// Whole graphs: compiled and launched as one (personality graph).
#include <algorithm>
#include <cstring>
#include <map>

#include "backends/sim/interface.h"
#include "backends/sim/kernel.h"
#include "backends/sim/recipe.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "ops/table.h"
#include "tern/accel_ops.h"

namespace tern::sim {

namespace {

constexpr std::byte kPoison{0xff};

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Reads the C description into a Recipe, node by node.
class Compiler {
 public:
  Compiler(const tern_graph_desc& graph, Recipe& recipe) : graph_(graph), recipe_(recipe) {}

  void run() {
    recipe_.values.assign(graph_.values, graph_.values + graph_.num_values);
    recipe_.num_arguments = graph_.num_arguments;
    recipe_.written.assign(graph_.num_arguments, false);
    defined_.assign(graph_.num_values, false);
    for (std::size_t v = 0; v < recipe_.values.size(); ++v) {
      const tern_graph_value& value = recipe_.values[v];
      require(value.argument < static_cast<std::int64_t>(graph_.num_arguments), "compile: a value's argument");
      require(value.offset >= 0, "compile: a value's offset");
    }
    for (std::uint32_t e = 0; e < graph_.num_edges; ++e) {
      require(graph_.edges[e].before < graph_.edges[e].after && graph_.edges[e].after < graph_.num_nodes,
              "compile: nodes stand in an order that an edge forbids");
    }
    for (std::uint32_t n = 0; n < graph_.num_nodes; ++n) add(graph_.nodes[n], n);
    place_intermediates();
  }

 private:
  [[nodiscard]] const tern_graph_value& value(std::int32_t v) const {
    require(v >= 0 && static_cast<std::size_t>(v) < recipe_.values.size(), "compile: no such value");
    return recipe_.values[static_cast<std::size_t>(v)];
  }

  // A place is only written upon: nothing needs to have written on it before.
  void read(std::int32_t v, bool is_place, const std::string& where) {
    const tern_graph_value& used = value(v);
    const auto latest = latest_.find(used.state);
    if (used.state >= 0 && latest != latest_.end() && used.version < latest->second) {
      fail(TERN_INVALID_ARGUMENT,
           cat(where, " reads version ", used.version, " of a state after version ", latest->second, " was written"));
    }
    // Views are values of their own: their memory is defined with the state's.
    const bool known = used.argument >= 0 || defined_[static_cast<std::size_t>(v)] || latest != latest_.end();
    if (!known && !is_place) fail(TERN_INVALID_ARGUMENT, cat(where, " reads a value that nothing has written"));
  }

  void write(std::int32_t v, const std::string& where) {
    const tern_graph_value& made = value(v);
    const auto at = static_cast<std::size_t>(v);
    if (defined_[at]) fail(TERN_INVALID_ARGUMENT, cat(where, " writes a value that has been written"));
    if (made.kind == TERN_VALUE_CONSTANT) fail(TERN_INVALID_ARGUMENT, cat(where, " writes a constant"));
    defined_[at] = true;
    if (made.state >= 0) latest_[made.state] = made.version;
    if (made.argument >= 0) recipe_.written[static_cast<std::size_t>(made.argument)] = true;
  }

  void add(const tern_graph_node& from, std::uint32_t index) {
    const tern_op_desc& op = from.op;
    if (op.op == 0 || op.op >= TERN_OP_LIMIT) fail(TERN_UNSUPPORTED, cat("compile: op ", op.op, " is not known"));
    const ops::OpSpec& spec = ops::op_spec(op.op);
    const std::string where = cat("compile: node ", index, " (", spec.name, ")");
    require(from.inputs != nullptr && from.outputs != nullptr, where + ": no arguments");
    Recipe::Node node;
    node.op = op.op;
    node.accumulate = op.accumulate;
    node.first_array = from.first_host_array;
    add_arrays(node.first_array, length_arrays(op.op, op.num_args), where);
    std::vector<TensorDesc> descs(op.num_args, absent_desc());
    for (std::uint32_t a = 0; a < op.num_args; ++a) {
      const bool is_place =
          a < spec.args.size() && spec.args[a].role == ops::Role::output && (op.accumulate >> a & 1U) == 0;
      if (from.inputs[a] >= 0) read(from.inputs[a], is_place, where);
      const std::int32_t v = from.outputs[a] >= 0 ? from.outputs[a] : from.inputs[a];
      node.values.push_back(v);
      if (v >= 0) descs[a] = value(v).desc;
      check_in_place(from.inputs[a], from.outputs[a], where);
    }
    for (std::uint32_t a = 0; a < op.num_args; ++a) {
      if (from.outputs[a] >= 0) write(from.outputs[a], where);
    }
    take(op, descs, node);
    recipe_.nodes.push_back(std::move(node));
  }

  // A node's arrays of lengths follow the last node's.
  void add_arrays(std::size_t first, const LengthArrays& arrays, const std::string& where) {
    LengthArrays& all = recipe_.arrays;
    require(first == all.expected || (all.or_more && first > all.expected),
            where + ": its arrays of lengths do not follow the last node's");
    all.expected = first + arrays.expected;
    all.or_more = arrays.or_more;
  }

  // The node's op as this version has it, if the device runs it.
  void take(const tern_op_desc& op, const std::vector<TensorDesc>& descs, Recipe::Node& node) const {
    tern_op_desc given = op;
    given.args = descs.data();
    tern_plugin_desc own;
    tern_plugin::require(tern_plugin_take_desc(&given, &own));
    node.values.resize(own.desc.num_args, -1);
    const auto* attrs = static_cast<const std::byte*>(own.desc.attrs);
    node.attrs.assign(attrs, attrs + own.desc.attrs_size);
    const std::string why =
        why_not(*recipe_.device, op.op, {own.desc.args, own.desc.num_args}, node.attrs, op.needs, op.accumulate);
    if (!why.empty()) fail(TERN_UNSUPPORTED, why);
  }

  // What an argument reads and what it writes lie in the same place.
  void check_in_place(std::int32_t in, std::int32_t out, const std::string& where) const {
    if (in < 0 || out < 0) return;
    const tern_graph_value& a = value(in);
    const tern_graph_value& b = value(out);
    if (a.argument != b.argument || a.offset != b.offset || (a.argument < 0 && a.state != b.state)) {
      fail(TERN_INVALID_ARGUMENT, cat(where, " writes in place, but elsewhere than it reads"));
    }
  }

  void place_intermediates() {
    std::map<std::int64_t, std::uint64_t> sizes;  // by state; values without one by a number of their own
    const auto key = [&](std::size_t v) {
      const std::int32_t state = recipe_.values[v].state;
      return state >= 0 ? std::int64_t{state} : -1 - static_cast<std::int64_t>(v);
    };
    for (std::size_t v = 0; v < recipe_.values.size(); ++v) {
      const tern_graph_value& value = recipe_.values[v];
      if (value.argument >= 0) continue;
      const auto begin = static_cast<std::uint64_t>(value.offset * dtype_bytes(value.desc.dtype));
      sizes[key(v)] = std::max(sizes[key(v)], begin + plane_bytes(value.desc).bytes[0]);
    }
    std::map<std::int64_t, std::uint64_t> begins;
    for (const auto& [state, bytes] : sizes) {
      begins[state] = recipe_.workspace_bytes;
      recipe_.workspace_bytes += round_up(bytes, recipe_.device->info.alignment);
    }
    recipe_.places.resize(recipe_.values.size());
    for (std::size_t v = 0; v < recipe_.values.size(); ++v) {
      if (recipe_.values[v].argument < 0) recipe_.places[v] = begins[key(v)];
    }
  }

  const tern_graph_desc& graph_;
  Recipe& recipe_;
  std::vector<bool> defined_;                    // per value: written by a node so far
  std::map<std::int32_t, std::int32_t> latest_;  // per state: its version so far
};

// A value's planes within its argument or the workspace.
Operand locate(const Recipe& recipe, std::size_t v, std::span<const tern_tensor> arguments, tern_plane workspace) {
  const tern_graph_value& value = recipe.values[v];
  tern_tensor tensor{};
  if (value.argument >= 0) {
    tensor = arguments[static_cast<std::size_t>(value.argument)];
  } else {
    tensor.planes[0] = {workspace.buffer, workspace.offset + recipe.places[v]};
  }
  tensor.desc = value.desc;
  tensor.planes[0].offset += static_cast<std::uint64_t>(value.offset * dtype_bytes(value.desc.dtype));
  return find_operand(*recipe.device, tensor, cat("value ", v), false);
}

// Arguments that are written share memory with no other.
void check_arguments(const Recipe& recipe, std::span<const tern_tensor> arguments) {
  std::vector<Operand> operands;
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    operands.push_back(find_operand(*recipe.device, arguments[a], cat("argument ", a), true));
  }
  for (std::size_t a = 0; a < operands.size(); ++a) {
    for (std::size_t b = 0; recipe.written[a] && b < operands.size(); ++b) {
      const auto& x = operands[a].planes[0];
      const auto& y = operands[b].planes[0];
      if (a == b || x.empty() || y.empty()) continue;
      if (x.data() < y.data() + y.size() && y.data() < x.data() + x.size()) {
        fail(TERN_INVALID_ARGUMENT, cat("argument ", a, ", which is written, overlaps argument ", b));
      }
    }
  }
}

void run_recipe(const Recipe& recipe, std::span<const tern_tensor> arguments, tern_plane workspace,
                const HostArgs& host_args) {
  const auto scratch = world().plane(workspace, recipe.workspace_bytes, "workspace");
  std::fill(scratch.begin(), scratch.end(), kPoison);
  for (const Recipe::Node& node : recipe.nodes) {
    KernelCall call;
    call.device = recipe.device.get();
    call.op = node.op;
    call.attrs = node.attrs;
    call.accumulate = node.accumulate;
    call.host_args = &host_args;
    call.first_array = node.first_array;
    for (std::int32_t v : node.values) {
      if (v < 0) {
        call.args.push_back({absent_desc(), {}});
      } else {
        call.args.push_back(locate(recipe, static_cast<std::size_t>(v), arguments, workspace));
      }
    }
    run_kernel(call);
  }
}

}  // namespace

void Recipe::take_library() {
  constexpr std::uint64_t kLibraryBytes = 65536;
  library_bytes = kLibraryBytes;
  device->take(Use::library, library_bytes);
}

std::string recipe_choice(const Device& device) { return cat("oracle@", personality_name(device.config.personality)); }

void give_recipe(const Recipe& recipe, tern_plan_info* info) {
  tern_plan_info filled{};
  filled.workspace_bytes = recipe.workspace_bytes;
  filled.library_bytes = recipe.library_bytes;
  put_text({filled.choice, sizeof filled.choice}, recipe_choice(*recipe.device));
  tern_plugin::require(give_info(info, filled));
}

tern_status compile(tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                    tern_recipe* out, tern_plan_info* info) {
  return guarded([&](auto&) {
    tern_plan_options own{};
    tern_plugin::require(tern_plugin_take_options(options, &own));
    const char* choice = own.choice;
    require(graph != nullptr && graph->size >= sizeof *graph && out != nullptr && info != nullptr,
            "compile: a null argument or a struct of an older version");
    const auto d = world().device(device);
    require_alive(*d);
    if (!d->can(TERN_CAP_WHOLE_GRAPH)) fail(TERN_UNSUPPORTED, cat(d->name(), " compiles no graphs"));
    const std::string name = recipe_choice(*d);
    if (choice != nullptr && *choice != '\0' && name != choice) {
      fail(TERN_UNSUPPORTED, cat("no recipe is called \"", choice, "\" here"));
    }
    if (const std::string why = why_not_as_one(*world().opened.at(device), *graph); !why.empty()) {
      fail(TERN_UNSUPPORTED, cat("compile: ", why));
    }
    auto made = std::make_shared<Recipe>();
    made->device = d;
    Compiler(*graph, *made).run();
    made->graph = graph_bytes(*graph);
    made->take_library();
    tern_plugin::require(tern_plugin_check_workspace(&own, made->workspace_bytes));
    give_recipe(*made, info);
    *out = world().recipes.add(std::move(made));
  });
}

tern_status launch_recipe(tern_recipe recipe, const tern_bind_args* given, const tern_host_args* host_args,
                          tern_stream stream) {
  return guarded([&](auto&) {
    tern_bind_args own{};
    tern_plugin::require(tern_plugin_take_bind_args(given, &own));
    const tern_tensor* arguments = own.args;
    const tern_plane workspace = own.workspace;
    const auto r = world().recipes.at(recipe);
    require_present(*r->device);
    const auto s = world().streams.at(stream);
    require(s->device == r->device, "launch_recipe: the stream is another device's");
    require(own.num_args == r->num_arguments && (arguments != nullptr || own.num_args == 0),
            "launch_recipe: another number of arguments than the graph has");
    std::vector<tern_tensor> tensors(arguments, arguments + r->num_arguments);
    check_arguments(*r, tensors);
    (void)world().plane(workspace, r->workspace_bytes, "launch_recipe: workspace");
    std::vector<TensorDesc> descs;
    for (const tern_graph_value& value : r->values) descs.push_back(value.desc);
    Work work;
    work.what = "a compiled graph";
    work.is_launch = true;
    work.args = copy_host_args(*r->device, host_args, r->arrays, descs);
    work.run = [recipe, tensors = std::move(tensors), workspace, counts = own.counts,
                descs = std::move(descs)](const HostArgs& args) {
      if (!world().recipes.contains(recipe)) fail(TERN_INVALID_ARGUMENT, "its recipe was destroyed before it ran");
      const auto ran = world().recipes.at(recipe);
      run_recipe(*ran, tensors, workspace, counts_at_run(*ran->device, args, counts, descs));
    };
    submit(*s, std::move(work));
  });
}

tern_status recipe_destroy(tern_recipe recipe) {
  return guarded([&](auto&) {
    if (recipe != nullptr) world().recipes.remove(recipe);
  });
}

}  // namespace tern::sim
