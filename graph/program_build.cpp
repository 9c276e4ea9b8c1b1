#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/strings.h"
#include "graph/program_impl.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }

// Builds a Program step by step; each method is one stage.
class Builder {
 public:
  Builder(Program::Impl& program, accel::ChoiceCache& choices) : p_(program), choices_(choices) {}

  void build() {
    check_store();
    choose_weights();
    make_steps();
    plan_kernels();
    plan_memory_and_order();
    allocate();
    bind_steps();
    create_lanes();
  }

 private:
  [[nodiscard]] const Node& node(std::int32_t n) const { return p_.graph().nodes()[index(n)]; }

  void check_store() {
    std::set<std::string> written;
    for (std::size_t s = 0; s < p_.graph().storages().size(); ++s) {
      const Storage& storage = p_.graph().storages()[s];
      if (storage.kind != StorageKind::constant && storage.kind != StorageKind::resource) continue;
      const TensorDesc& stored = p_.store->at(storage.name).desc;
      if (!same_shape(stored, storage.desc) || stored.dtype != storage.desc.dtype ||
          stored.scheme.packing != storage.desc.scheme.packing) {
        throw std::logic_error(cat("program: ", storage.name, " is ", to_string(stored), " in the store and ",
                                   to_string(storage.desc), " in the graph"));
      }
      if (storage.versions > 1) p_.written.push_back(storage.name);
    }
  }

  // What steps read as stored is held where it lies; the rest is packed, and each pack takes its weight's place before
  // the next one is made.
  void choose_weights() {
    packed_args_ = choose_packs(p_.graph(), *p_.store, choices_, p_.options.packing);
    for (const PackedArg& arg : packed_args_) p_.packs[arg.name] = arg.uses;
    for (const Storage& storage : p_.graph().storages()) {
      if (storage.kind != StorageKind::constant && storage.kind != StorageKind::resource) continue;
      if (p_.options.probe || !p_.packs.contains(storage.name)) p_.holds.push_back(p_.store->hold_plain(storage.name));
    }
    for (const auto& [name, uses] : p_.packs) {
      p_.holds.push_back(p_.store->hold_packed(name, uses));
      (void)p_.store->packed(name, uses);
      p_.report.packs += p_.store->packed_memory(name, uses);
    }
    if (!p_.packs.empty()) p_.store->allocator()->empty_cache();  // of plain forms: nothing else has their sizes
  }

  void add_transfer(StepKind kind, std::int32_t storage, const std::string& name, const TensorDesc& desc) {
    Step step;
    step.kind = kind;
    step.lane = kind == StepKind::upload ? Lane::copy_in : Lane::copy_out;
    step.transfer = static_cast<std::int32_t>(p_.transfers.size());
    p_.steps.push_back(std::move(step));
    step_storage_.push_back(storage);
    Transfer transfer;
    transfer.name = name;
    transfer.desc = desc;
    transfer.padding = p_.graph().storages()[index(storage)].padding;
    (kind == StepKind::upload ? p_.uploads : p_.downloads)[name] = p_.transfers.size();
    p_.transfers.push_back(std::move(transfer));
  }

  // The counts of dynamic dimensions are uploaded like an input.
  void add_counts() {
    const auto nodes = p_.graph().nodes();
    if (std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) { return is_dynamic(p_.graph(), node); })) {
      return;
    }
    p_.counts = static_cast<std::int32_t>(p_.transfers.size());
    Step step;
    step.kind = StepKind::upload;
    step.lane = Lane::copy_in;
    step.transfer = p_.counts;
    p_.steps.push_back(std::move(step));
    step_storage_.push_back(-1);
    Transfer transfer;
    transfer.name = "counts";
    transfer.desc = make_desc(TERN_I64, {TERN_MAX_COUNTS});
    p_.transfers.push_back(std::move(transfer));
  }

  // Where the counts stand among the memory items: behind storages and workspaces.
  [[nodiscard]] std::int32_t counts_item() const {
    return static_cast<std::int32_t>(p_.graph().storages().size() + p_.steps.size());
  }

  void make_steps() {
    const Graph& graph = p_.graph();
    add_counts();
    for (std::size_t s = 0; s < graph.storages().size(); ++s) {
      const Storage& storage = graph.storages()[s];
      if (storage.kind == StorageKind::input) {
        add_transfer(StepKind::upload, static_cast<std::int32_t>(s), storage.name, storage.desc);
      }
    }
    const bool whole_graphs = !p_.device->can(TERN_CAP_EAGER);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& next = graph.nodes()[n];
      const bool joins = whole_graphs && !p_.options.probe && !next.on_host && !p_.steps.empty() &&
                         p_.steps.back().kind == StepKind::recipe && p_.steps.back().lane == next.lane;
      if (!joins) {
        Step step;
        step.kind = next.on_host ? StepKind::host : whole_graphs ? StepKind::recipe : StepKind::launch;
        step.lane = next.lane;
        p_.steps.push_back(std::move(step));
        step_storage_.push_back(-1);
      }
      p_.steps.back().nodes.push_back(static_cast<std::int32_t>(n));
    }
    for (const Output& output : graph.outputs()) {
      add_transfer(StepKind::download, graph.info(output.value).storage, output.name, graph.desc(output.value));
    }
  }

  [[nodiscard]] accel::OpDesc planned_desc(std::int32_t n) const {
    accel::OpDesc desc = op_desc(p_.graph(), node(n).call);
    for (const PackedArg& arg : packed_args_) {
      if (arg.node == n) desc.args[arg.arg] = p_.store->packed(arg.name, arg.uses).desc;
    }
    return desc;
  }

  void plan_kernels() {
    infos_.resize(p_.steps.size());
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      Step& step = p_.steps[s];
      if (step.kind == StepKind::launch) {
        const accel::OpDesc desc = planned_desc(step.nodes[0]);
        const std::string key = desc.key();
        auto known = p_.plans.find(key);
        if (known == p_.plans.end()) {
          known = p_.plans.emplace(key, choices_.plan(p_.device, desc)).first;
          p_.report.library += known->second.info().library_bytes;
        }
        infos_[s] = known->second.info();
        step_plan_[s] = &known->second;
      } else if (step.kind == StepKind::recipe) {
        accel::CompiledGraph compiled = compile_segment(p_.graph(), step.nodes, p_.device, choices_);
        step.recipe = std::move(compiled.recipe);
        infos_[s] = compiled.info;
        p_.report.library += compiled.info.library_bytes;
      }
      step.scratch.resize(infos_[s].host_scratch_bytes);
      p_.report.host_scratch += step.scratch.size();
    }
  }

  // Storages that a step reads or writes; those inside a recipe alone are the recipe's own business.
  [[nodiscard]] Task task_of(std::size_t s) const {
    const Step& step = p_.steps[s];
    Task task;
    task.lane = step.lane;
    if (step.transfer >= 0) {
      const bool is_counts = step.transfer == p_.counts;
      task.accesses.push_back({is_counts ? counts_item() : step_storage_[s], step.kind == StepKind::upload});
      return task;
    }
    std::map<std::int32_t, bool> accesses;
    bool needs_counts = false;
    for (std::int32_t n : step.nodes) {
      if (step.kind != StepKind::host && is_dynamic(p_.graph(), node(n))) needs_counts = true;
      for (Value value : node(n).call.inputs) {
        if (value.present()) accesses.emplace(p_.graph().info(value).storage, false);
      }
      for (Value value : node(n).results) {
        if (value.present()) accesses[p_.graph().info(value).storage] = true;
      }
    }
    if (step.kind == StepKind::recipe) {
      const auto outside = recipe_arguments(p_.graph(), step.nodes);
      std::erase_if(accesses, [&](const auto& access) {
        return std::find(outside.begin(), outside.end(), access.first) == outside.end();
      });
    }
    for (const auto& [storage, writes] : accesses) task.accesses.push_back({storage, writes});
    if (needs_counts) task.accesses.push_back({counts_item(), false});
    return task;
  }

  void plan_memory_and_order() {
    std::vector<Task> tasks;
    for (std::size_t s = 0; s < p_.steps.size(); ++s) tasks.push_back(task_of(s));
    const Schedule schedule = make_schedule(tasks);
    const auto storages = p_.graph().storages();
    std::vector<MemoryItem> items(storages.size() + p_.steps.size() + 1);
    items.back().bytes = p_.counts >= 0 ? sizeof(tern_host_args::counts) : 0;
    for (std::size_t s = 0; s < tasks.size(); ++s) {
      for (const Access& access : tasks[s].accesses) {
        if (access.memory == counts_item()) {
          items.back().tasks.push_back(static_cast<std::int32_t>(s));
          continue;
        }
        const Storage& storage = storages[index(access.memory)];
        if (storage.kind == StorageKind::constant || storage.kind == StorageKind::resource) continue;
        MemoryItem& item = items[index(access.memory)];
        item.bytes = total_bytes(storage.desc);
        item.tasks.push_back(static_cast<std::int32_t>(s));
      }
      MemoryItem& workspace = items[storages.size() + s];
      workspace.bytes = infos_[s].workspace_bytes;
      workspace.tasks = {static_cast<std::int32_t>(s)};
    }
    const auto& info = p_.device->info();
    plan_ =
        plan_memory(items, tasks, schedule, std::max<std::uint64_t>(info.alignment, 1), info.largest_allocation_bytes);
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      for (std::int32_t other : schedule.waits[s]) {
        if (p_.num_waits++ != p_.options.drop_wait) p_.steps[s].waits.push_back(other);
      }
      if (schedule.records[s]) p_.steps[s].event = p_.device->make_event();
    }
    p_.report.context = p_.device->info().context_bytes;
    p_.report.arenas = plan_.total_bytes();
    p_.report.live_peak = plan_.live_peak;
  }

  void allocate() {
    p_.report.arenas = 0;  // with what the allocator rounds up to
    for (std::uint64_t bytes : plan_.arena_bytes) {
      p_.arenas.push_back(p_.store->allocator()->allocate(bytes, "intermediate values"));
      p_.report.arenas += p_.arenas.back().bytes();
    }
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      if (p_.steps[s].transfer < 0) continue;
      Transfer& transfer = p_.transfers[index(p_.steps[s].transfer)];
      transfer.device = p_.steps[s].transfer == p_.counts ? item_place(counts_item()) : place(step_storage_[s]);
      if (p_.steps[s].kind == StepKind::download) {
        for (const Output& output : p_.graph().outputs()) {
          if (output.name == transfer.name) transfer.device = tensor_of(output.value).planes[0];
        }
      }
      transfer.staging = p_.device->allocate_host(total_bytes(transfer.desc));
      p_.report.staging += transfer.staging.bytes();
    }
  }

  [[nodiscard]] tern_plane place(std::int32_t storage) const {
    const Storage& info = p_.graph().storages()[index(storage)];
    if (info.kind == StorageKind::constant || info.kind == StorageKind::resource) {
      return p_.store->at(info.name).planes[0];
    }
    const MemoryPlace& at = plan_.places[index(storage)];
    if (at.arena < 0) return {};
    return p_.arenas[index(at.arena)].plane(at.offset);
  }

  [[nodiscard]] tern_plane item_place(std::int32_t item) const {
    const MemoryPlace& at = plan_.places[index(item)];
    return at.arena < 0 ? tern_plane{} : p_.arenas[index(at.arena)].plane(at.offset);
  }

  [[nodiscard]] accel::BindMemory memory_of(std::size_t s) {
    const auto workspace = static_cast<std::int32_t>(p_.graph().storages().size() + s);
    return {item_place(workspace), item_place(counts_item()), p_.steps[s].scratch.data()};
  }

  [[nodiscard]] tern_tensor tensor_of(Value value) const {
    const ValueInfo& info = p_.graph().info(value);
    const Storage& storage = p_.graph().storage_of(value);
    tern_tensor tensor{};
    if (storage.kind == StorageKind::constant || storage.kind == StorageKind::resource) {
      tensor = p_.store->at(storage.name);
    } else {
      tensor.planes[0] = place(info.storage);
    }
    tensor.desc = info.desc;
    tensor.planes[0].offset += static_cast<std::uint64_t>(info.offset) * dtype_bytes_of(info.desc);
    return tensor;
  }

  static std::uint64_t dtype_bytes_of(const TensorDesc& desc) { return total_bytes(make_desc(desc.dtype, {1})); }

  [[nodiscard]] std::vector<tern_tensor> stored_tensors(std::int32_t n) const {
    const OpCall& call = node(n).call;
    std::vector<tern_tensor> tensors(call.inputs.size());
    for (std::size_t a = 0; a < tensors.size(); ++a) {
      const Value value = node(n).results[a].present() ? node(n).results[a] : call.inputs[a];
      tensors[a].desc = absent_desc();
      if (value.present()) tensors[a] = tensor_of(value);
    }
    return tensors;
  }

  [[nodiscard]] std::vector<tern_tensor> node_tensors(std::int32_t n) const {
    std::vector<tern_tensor> tensors = stored_tensors(n);
    for (const PackedArg& arg : packed_args_) {
      if (arg.node == n) tensors[arg.arg] = p_.store->packed(arg.name, arg.uses);
    }
    return tensors;
  }

  void bind_steps() {
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      Step& step = p_.steps[s];
      if (p_.options.probe && !step.nodes.empty()) show_to_probe(step);
      if (step.kind == StepKind::launch) {
        step.tensors = node_tensors(step.nodes[0]);
        step.bound = step_plan_.at(s)->bind(step.tensors, memory_of(s));
      } else if (step.kind == StepKind::recipe) {
        for (std::int32_t storage : recipe_arguments(p_.graph(), step.nodes)) {
          const Storage& info = p_.graph().storages()[index(storage)];
          tern_tensor tensor{};
          if (info.kind == StorageKind::constant || info.kind == StorageKind::resource)
            tensor = p_.store->at(info.name);
          tensor.desc = info.desc;
          if (info.kind == StorageKind::input || info.kind == StorageKind::intermediate)
            tensor.planes[0] = place(storage);
          step.tensors.push_back(tensor);
        }
        step.memory = memory_of(s);  // handed over at each launch
      } else if (step.kind == StepKind::host) {
        bind_on_host(step);
      }
    }
  }

  void show_to_probe(Step& step) {
    step.stored = stored_tensors(step.nodes[0]);
    step.packed = std::make_unique<bool[]>(step.stored.size());
    for (const PackedArg& arg : packed_args_) {
      if (arg.node == step.nodes[0]) step.packed[arg.arg] = true;
    }
  }

  void bind_on_host(Step& step) {
    step.tensors = node_tensors(step.nodes[0]);
    step.host = std::make_unique<HostCall>();
    const accel::OpDesc desc = op_desc(p_.graph(), node(step.nodes[0]).call);
    step.host->plan = choices_.plan(p_.host, desc);
    const accel::Plan& plan = step.host->plan;
    step.host->scratch.resize(plan.info().host_scratch_bytes);
    if (plan.info().workspace_bytes > 0) {
      step.host->workspace = p_.host->allocate(plan.info().workspace_bytes, "a host fallback's workspace");
    }
    std::vector<tern_tensor> tensors = step.tensors;
    for (tern_tensor& tensor : tensors) {
      const PlaneBytes planes = is_present(tensor.desc) ? plane_bytes(tensor.desc) : PlaneBytes{};
      for (int p = 0; p < TERN_MAX_PLANES; ++p) {
        tensor.planes[p] = {};
        if (planes.bytes[p] == 0) continue;
        step.host->memory.push_back(p_.host->allocate(planes.bytes[p], "a host fallback's argument"));
        step.host->staging.push_back(p_.device->allocate_host(planes.bytes[p]));
        tensor.planes[p] = step.host->memory.back().plane();
      }
    }
    accel::BindMemory memory;
    if (step.host->workspace) memory.workspace = step.host->workspace.plane();
    step.host->counts = p_.host->allocate(sizeof(tern_host_args::counts), "a host fallback's counts");
    memory.counts = step.host->counts.plane();
    memory.host_scratch = step.host->scratch.data();
    step.host->bound = plan.bind(tensors, memory);
  }

  void create_lanes() {
    for (const Step& step : p_.steps) {
      auto& stream = p_.streams[static_cast<std::size_t>(step.lane)];
      if (!stream) stream = p_.device->make_stream();
    }
  }

  Program::Impl& p_;
  accel::ChoiceCache& choices_;
  std::vector<PackedArg> packed_args_;
  std::vector<std::int32_t> step_storage_;  // per step: of an upload or download, else -1
  std::vector<tern_plan_info> infos_;       // per step
  std::map<std::size_t, const accel::Plan*> step_plan_;
  MemoryPlan plan_;
};

}  // namespace

std::unique_ptr<Program> Program::build(const Graph& graph, const std::shared_ptr<TensorStore>& store,
                                        accel::ChoiceCache& choices, const ProgramOptions& options,
                                        const accel::DevicePtr& host) {
  auto impl = std::make_unique<Impl>();
  impl->device = store->device();
  impl->host = host;
  impl->store = store;
  impl->options = options;
  impl->bound = bind_graph(remove_dead_nodes(graph), *impl->device, host.get(), options.bind);
  Builder(*impl, choices).build();
  return std::unique_ptr<Program>(new Program(std::move(impl)));
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;

const MemoryReport& Program::memory() const { return impl_->report; }
const std::vector<BindingRow>& Program::bindings() const { return impl_->bound.table; }
const Graph& Program::graph() const { return impl_->bound.graph; }
std::int32_t Program::num_waits() const { return impl_->num_waits; }

}  // namespace tern::graph
