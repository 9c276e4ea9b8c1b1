#include "graph/program_plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "base/strings.h"
#include "graph/compile.h"
#include "graph/row_split.h"
#include "ops/program_ops.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

// Inputs and outputs of at most this many bytes travel together: one copy of many costs what one of one does. Larger
// ones are copied alone, and their memory is free as soon as they were read.
constexpr std::uint64_t kAlone = 1 << 20;

std::uint64_t aligned(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Whether an argument of the node has a dimension whose size is known at launch only.
bool is_dynamic(const Graph& graph, const Node& node) {
  for (std::size_t a = 0; a < node.call.inputs.size(); ++a) {
    const Value value = node.results[a].present() ? node.results[a] : node.call.inputs[a];
    if (value.present() && graph.desc(value).dynamic_dim >= 0) return true;
  }
  return false;
}

// Plans stage by stage.
class Planner {
 public:
  Planner(ProgramPlan& plan, accel::ChoiceCache& choices, const TensorStore* store)
      : p_(plan), choices_(choices), store_(store) {}

  void plan() {
    check_nodes();
    choose_weights();
    make_fields();
    make_steps();
    compile_graphs();
    plan_kernels();
    plan_memory_and_order();
    report();
  }

 private:
  [[nodiscard]] const Graph& graph() const { return p_.graph(); }
  [[nodiscard]] const Node& node(std::int32_t n) const { return graph().nodes()[index(n)]; }
  [[nodiscard]] std::uint64_t alignment() const { return std::max<std::uint64_t>(p_.device->info().alignment, 1); }

  void choose_weights() {
    p_.packed_args = choose_packs(graph(), p_.device, choices_, p_.options.packing, store_);
    for (const PackedArg& arg : p_.packed_args) p_.packs[arg.name] = arg.uses;
  }

  [[nodiscard]] Field field_of(const std::string& name, const TensorDesc& desc, Padding padding) const {
    if (desc.dynamic_dim > 0) throw std::logic_error("program: only the first dimension of an input is dynamic");
    Field field;
    field.name = name;
    field.desc = desc;
    field.padding = padding;
    field.bytes = total_bytes(desc);
    if (desc.dynamic_dim == 0 && desc.shape[0] > 0) {
      field.entry_bytes = field.bytes / static_cast<std::uint64_t>(desc.shape[0]);
    }
    return field;
  }

  // Into the transfer that others share, or one of its own.
  FieldPlace add_field(Field field, bool to_device, bool alone, std::int32_t& shared) {
    if (alone || shared < 0) {
      p_.transfers.push_back({to_device, {}, 0});
      if (!alone) shared = static_cast<std::int32_t>(p_.transfers.size()) - 1;
    }
    const auto transfer = alone ? static_cast<std::int32_t>(p_.transfers.size()) - 1 : shared;
    Transfer& into = p_.transfers[index(transfer)];
    field.offset = into.bytes;
    into.bytes = aligned(into.bytes + field.bytes, alignment());
    into.fields.push_back(std::move(field));
    return {transfer, static_cast<std::int32_t>(into.fields.size()) - 1};
  }

  void make_fields() {
    p_.field_of_storage.resize(graph().storages().size());
    std::int32_t shared = -1;
    const auto nodes = graph().nodes();
    if (std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return is_dynamic(graph(), node); })) {
      p_.counts =
          add_field(field_of("counts", make_desc(TERN_I64, {TERN_MAX_COUNTS}), Padding::zero), true, false, shared);
    }
    for (std::size_t s = 0; s < graph().storages().size(); ++s) {
      const Storage& storage = graph().storages()[s];
      if (storage.kind != StorageKind::input) continue;
      Field field = field_of(storage.name, storage.desc, storage.padding);
      const bool alone = field.bytes > kAlone;
      p_.field_of_storage[s] = add_field(std::move(field), true, alone, shared);
      p_.inputs.push_back(p_.field_of_storage[s]);
    }
    shared = -1;
    for (const Output& output : graph().outputs()) {
      Field field = field_of(output.name, graph().desc(output.value), Padding::zero);
      const bool alone = field.bytes > kAlone || !owns_memory(output.value);
      p_.outputs.push_back(add_field(std::move(field), false, alone, shared));
      if (!alone) p_.field_of_storage[index(graph().info(output.value).storage)] = p_.outputs.back();
    }
  }

  // Whether an output is the whole of an intermediate that lies nowhere yet.
  [[nodiscard]] bool owns_memory(Value value) const {
    const ValueInfo& info = graph().info(value);
    const Storage& storage = graph().storage_of(value);
    return storage.kind == StorageKind::intermediate && info.offset == 0 &&
           total_bytes(info.desc) == total_bytes(storage.desc) && p_.field_of_storage[index(info.storage)].transfer < 0;
  }

  void make_steps() {
    for (std::size_t t = 0; t < p_.transfers.size(); ++t) {
      if (p_.transfers[t].to_device) add_transfer_step(t);
    }
    const bool whole_graphs = !p_.device->can(TERN_CAP_EAGER);
    for (std::size_t n = 0; n < graph().nodes().size(); ++n) {
      const Node& next = graph().nodes()[n];
      const bool joins = kind_of(next, whole_graphs) == StepKind::recipe && !p_.options.probe && !p_.steps.empty() &&
                         p_.steps.back().kind == StepKind::recipe && p_.steps.back().lane == next.lane;
      if (!joins) {
        PlannedStep step;
        step.kind = kind_of(next, whole_graphs);
        step.lane = next.lane;
        p_.steps.push_back(std::move(step));
      }
      p_.steps.back().nodes.push_back(static_cast<std::int32_t>(n));
    }
    for (std::size_t t = 0; t < p_.transfers.size(); ++t) {
      if (!p_.transfers[t].to_device) add_transfer_step(t);
    }
  }

  // A device that doesn't take a segment as one graph has it as several steps.
  void compile_graphs() {
    std::vector<PlannedStep> steps;
    for (PlannedStep& step : p_.steps) {
      if (step.kind != StepKind::recipe) {
        steps.push_back(std::move(step));
        continue;
      }
      for (auto& part : compile_segment(graph(), step.nodes, p_.device, choices_, p_.options.typical_counts)) {
        PlannedStep made;
        made.kind = step.kind;
        made.lane = step.lane;
        made.nodes = std::move(part.nodes);
        made.info = part.compiled.info;
        made.compiled = std::move(part.compiled);
        p_.report.library += made.info.library_bytes;
        steps.push_back(std::move(made));
      }
    }
    p_.steps = std::move(steps);
    for (PlannedStep& step : p_.steps) {
      if (step.transfer < 0 && step.kind != StepKind::program) step.args = args_of(step.nodes);
    }
  }

  [[nodiscard]] static StepKind kind_of(const Node& node, bool whole_graphs) {
    if (ops::is_program_op(node.call.op)) return StepKind::program;
    if (node.on_host) return StepKind::host;
    return whole_graphs ? StepKind::recipe : StepKind::launch;
  }

  // What every slot can count, and that the groups of collectives are there.
  void check_nodes() {
    p_.capacities.fill(std::numeric_limits<std::int64_t>::max());
    for (const ValueInfo& value : graph().values()) {
      if (value.desc.dynamic_dim < 0) continue;
      std::int64_t& capacity = p_.capacities[value.desc.count_slot];
      capacity = std::min(capacity, value.desc.shape[static_cast<std::size_t>(value.desc.dynamic_dim)]);
    }
    for (const Node& node : graph().nodes()) {
      p_.sets_counts = p_.sets_counts || node.call.op == ops::kSetCount;
      if (!ops::is_collective(node.call.op)) continue;
      const auto attrs = ops::unpack_attrs<ops::CollectiveAttrs>(node.call.attrs);
      const auto& groups = p_.options.groups;
      if (attrs.group < 0 || index(attrs.group) >= groups.size() || !groups[index(attrs.group)]) {
        throw std::logic_error(cat("program: ", ops::op_spec(node.call.op).name, " names no group ", attrs.group));
      }
      if (groups[index(attrs.group)]->ranks() != attrs.ranks) {
        throw std::logic_error(cat("program: group ", attrs.group, " has ", groups[index(attrs.group)]->ranks(),
                                   " ranks, and the graph is for ", attrs.ranks));
      }
    }
  }

  void add_transfer_step(std::size_t transfer) {
    const bool to_device = p_.transfers[transfer].to_device;
    PlannedStep step;
    step.kind = to_device ? StepKind::upload : StepKind::download;
    step.lane = to_device ? Lane::copy_in : Lane::copy_out;
    step.transfer = static_cast<std::int32_t>(transfer);
    p_.steps.push_back(std::move(step));
  }

  // What the nodes' launches are told: a place in launch_args.
  std::int32_t args_of(const std::vector<std::int32_t>& nodes) {
    LaunchArgs args;
    for (const std::int32_t n : nodes) {
      args.dynamic = args.dynamic || is_dynamic(graph(), node(n));
      const ops::OpSpec& spec = ops::op_spec(node(n).call.op);
      for (std::size_t a = 0; a < spec.args.size(); ++a) {
        if ((spec.args[a].flags & ops::kLengths) == 0) continue;
        const TensorDesc& desc = graph().desc(node(n).call.inputs[a]);
        const bool cut = desc.dynamic_dim == 0 && p_.device->can(TERN_CAP_DYNAMIC_SHAPES);
        args.lengths.push_back({input_of(n, a), cut ? static_cast<std::int32_t>(desc.count_slot) : -1, desc.shape[0]});
      }
    }
    const auto known = std::find(p_.launch_args.begin(), p_.launch_args.end(), args);
    const auto place = known - p_.launch_args.begin();
    if (known == p_.launch_args.end()) p_.launch_args.push_back(std::move(args));
    return static_cast<std::int32_t>(place);
  }

  [[nodiscard]] std::int32_t input_of(std::int32_t n, std::size_t arg) const {
    const std::int32_t storage = graph().info(node(n).call.inputs[arg]).storage;
    const FieldPlace place = p_.field_of_storage[index(storage)];
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) {
      if (p_.inputs[i].transfer == place.transfer && p_.inputs[i].field == place.field) {
        return static_cast<std::int32_t>(i);
      }
    }
    const ops::OpSpec& spec = ops::op_spec(node(n).call.op);
    throw std::logic_error(cat("program: the lengths ", spec.args[arg].name, " of ", spec.name, " are no input"));
  }

  [[nodiscard]] accel::OpDesc planned_desc(std::int32_t n) const {
    accel::OpDesc desc = op_desc(graph(), node(n).call);
    for (const PackedArg& arg : p_.packed_args) {
      if (arg.node == n) desc.args[arg.arg].layout = arg.layout;
    }
    return desc;
  }

  const accel::Plan* kernel_of(const accel::DevicePtr& device, const accel::OpDesc& desc,
                               std::map<std::string, accel::Plan>& known) {
    const std::string key = desc.key();
    auto found = known.find(key);
    if (found == known.end()) {
      accel::PlanOptions options;
      options.typical_counts = p_.options.typical_counts;
      options.workspace_limit = device->info().largest_allocation_bytes;
      found = known.emplace(key, choices_.plan(device, desc, options)).first;
      p_.report.library += found->second.info().library_bytes;
    }
    return &found->second;
  }

  void plan_kernels() {
    for (PlannedStep& step : p_.steps) {
      switch (step.kind) {
        case StepKind::launch:
          step.kernel = kernel_of(p_.device, planned_desc(step.nodes[0]), p_.kernels);
          step.info = step.kernel->info();
          break;
        case StepKind::host:
          step.kernel = kernel_of(p_.host, op_desc(graph(), node(step.nodes[0]).call), p_.host_kernels);
          break;
        case StepKind::recipe:
        case StepKind::upload:
        case StepKind::program:
        case StepKind::download:
          break;
      }
    }
  }

  [[nodiscard]] std::int32_t item_of_transfer(std::int32_t transfer) const {
    return static_cast<std::int32_t>(graph().storages().size() + p_.steps.size()) + transfer;
  }
  [[nodiscard]] std::int32_t item_of_storage(std::int32_t storage) const {
    const FieldPlace place = p_.field_of_storage[index(storage)];
    return place.transfer < 0 ? storage : item_of_transfer(place.transfer);
  }

  // What a step reads or writes; storages inside a recipe alone are the recipe's own business. Fields of one transfer
  // are one memory, which the first that writes there defines: so producers on different lanes wait for each other.
  [[nodiscard]] Task task_of(const PlannedStep& step) const {
    Task task;
    task.lane = step.lane;
    if (step.transfer >= 0) {
      task.accesses.push_back({item_of_copied(step.transfer), step.kind == StepKind::upload});
      return task;
    }
    std::map<std::int32_t, bool> accesses;  // of storages
    bool needs_counts = false;
    bool sets_count = false;
    for (const std::int32_t n : step.nodes) {
      const bool is_kernel = step.kind == StepKind::launch || step.kind == StepKind::recipe;
      if (is_kernel && is_dynamic(graph(), node(n))) needs_counts = true;
      sets_count = sets_count || node(n).call.op == ops::kSetCount;
      for (const Value value : node(n).call.inputs) {
        if (value.present()) accesses.emplace(graph().info(value).storage, false);
      }
      for (const Value value : node(n).results) {
        if (value.present()) accesses[graph().info(value).storage] = true;
      }
    }
    if (step.kind == StepKind::recipe) {
      const auto outside = recipe_arguments(graph(), step.nodes);
      std::erase_if(accesses, [&](const auto& access) {
        return std::find(outside.begin(), outside.end(), access.first) == outside.end();
      });
    }
    std::map<std::int32_t, bool> items;
    for (const auto& [storage, writes] : accesses) items[item_of_storage(storage)] |= writes;
    if (needs_counts) items.emplace(item_of_transfer(p_.counts.transfer), false);
    if (sets_count && p_.counts.transfer >= 0) items[item_of_transfer(p_.counts.transfer)] = true;
    for (const auto& [item, writes] : items) task.accesses.push_back({item, writes});
    return task;
  }

  // The memory on the device that a transfer copies.
  [[nodiscard]] std::int32_t item_of_copied(std::int32_t transfer) const {
    const Transfer& copied = p_.transfers[index(transfer)];
    if (copied.to_device) return item_of_transfer(transfer);
    for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
      if (p_.outputs[o].transfer == transfer) return item_of_storage(graph().info(graph().outputs()[o].value).storage);
    }
    throw std::logic_error("program: a download of nothing");
  }

  void plan_memory_and_order() {
    std::vector<Task> tasks;
    for (const PlannedStep& step : p_.steps) tasks.push_back(task_of(step));
    const Schedule schedule = make_schedule(tasks);
    const auto storages = graph().storages();
    std::vector<MemoryItem> items(storages.size() + p_.steps.size() + p_.transfers.size());
    for (std::size_t s = 0; s < tasks.size(); ++s) {
      for (const Access& access : tasks[s].accesses) {
        const std::size_t item = index(access.memory);
        if (item < storages.size() && storages[item].is_stored()) continue;
        items[item].bytes = item < storages.size() ? total_bytes(storages[item].desc)
                                                   : p_.transfers[item - storages.size() - p_.steps.size()].bytes;
        items[item].tasks.push_back(static_cast<std::int32_t>(s));
      }
      MemoryItem& workspace = items[storages.size() + s];
      workspace.bytes = p_.steps[s].info.workspace_bytes;
      workspace.tasks = {static_cast<std::int32_t>(s)};
    }
    p_.memory = plan_memory(items, tasks, schedule, alignment(), p_.device->info().largest_allocation_bytes);
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      for (const std::int32_t other : schedule.waits[s]) {
        if (p_.num_waits++ != p_.options.drop_wait) p_.steps[s].waits.push_back(other);
      }
      p_.steps[s].records = schedule.records[s];
    }
  }

  void report() {
    MemoryReport& report = p_.report;
    report.context = p_.device->info().context_bytes;
    report.arenas = p_.memory.total_bytes();
    report.live_peak = p_.memory.live_peak;
    if (p_.memory.fullest_task >= 0) report.workspace = p_.steps[index(p_.memory.fullest_task)].info.workspace_bytes;
    for (const Transfer& transfer : p_.transfers) {
      report.staging += transfer.bytes * (transfer.to_device && p_.options.prepare_ahead ? 2 : 1);
    }
    for (const PlannedStep& step : p_.steps) report.host_scratch += step.info.host_scratch_bytes;
    for (const Storage& storage : graph().storages()) {
      if (storage.kind == StorageKind::resource) {
        (storage.on_host ? report.host_resources : report.resources) += total_bytes(storage.desc);
      }
      if (storage.kind == StorageKind::constant && !p_.packs.contains(storage.name)) {
        report.weights += total_bytes(storage.desc);
      }
    }
    std::set<std::string> counted;
    for (const PackedArg& arg : p_.packed_args) {
      if (counted.insert(arg.name).second) report.packs += arg.bytes;
    }
  }

  ProgramPlan& p_;
  accel::ChoiceCache& choices_;
  const TensorStore* store_;
};

void check_store(const Graph& graph, const TensorStore& store) {
  for (const Storage& storage : graph.storages()) {
    if (!storage.is_stored()) continue;
    const TensorDesc& stored = store.at(storage.name).desc;
    if (store.is_on_host(storage.name) != storage.on_host) {
      throw std::logic_error(cat("program: ", storage.name, " lies in the memory of the ",
                                 storage.on_host ? "device" : "host", ", not where the graph has it"));
    }
    if (!same_shape(stored, storage.desc) || stored.dtype != storage.desc.dtype ||
        stored.scheme.packing != storage.desc.scheme.packing) {
      throw std::logic_error(cat("program: ", storage.name, " is ", to_string(stored), " in the store and ",
                                 to_string(storage.desc), " in the graph"));
    }
  }
}

}  // namespace

const MemoryPlace& ProgramPlan::place_of_storage(std::int32_t storage) const { return memory.places[index(storage)]; }
const MemoryPlace& ProgramPlan::place_of_workspace(std::size_t step) const {
  return memory.places[graph().storages().size() + step];
}
const MemoryPlace& ProgramPlan::place_of_transfer(std::int32_t transfer) const {
  return memory.places[graph().storages().size() + steps.size() + index(transfer)];
}

ProgramPlan plan_program(const Graph& graph, const accel::DevicePtr& device, accel::ChoiceCache& choices,
                         const ProgramOptions& options, const accel::DevicePtr& host, const TensorStore* store) {
  ProgramPlan plan;
  plan.device = device;
  plan.host = host;
  plan.options = options;
  plan.bound = bind_graph(split_rows(remove_dead_nodes(graph), *device), *device, host.get(), options.bind);
  if (store != nullptr) check_store(plan.graph(), *store);
  Planner(plan, choices, store).plan();
  return plan;
}

}  // namespace tern::graph
