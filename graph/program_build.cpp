#include <algorithm>

#include "base/strings.h"
#include "graph/compile.h"
#include "graph/program_impl.h"

namespace tern::graph {
namespace {

// Takes memory for a plan and binds its kernels there; each method is one stage.
class Builder {
 public:
  explicit Builder(Program::Impl& program) : p_(program), plan_(program.plan) {}

  void build() {
    hold_weights();
    allocate();
    if (p_.store->only_counts()) return;
    bind_steps();
    set_up_launches();
  }

 private:
  [[nodiscard]] const Graph& graph() const { return plan_.graph(); }
  [[nodiscard]] const Node& node(std::int32_t n) const { return graph().nodes()[index(n)]; }

  // What steps read as stored is held where it lies; the rest is packed, and each pack takes its weight's place before
  // the next one is made.
  void hold_weights() {
    for (const Storage& storage : graph().storages()) {
      if (!storage.is_stored()) continue;
      const bool packed = plan_.packs.contains(storage.name);
      if (plan_.options.probe || !packed) p_.holds.push_back(p_.store->hold_plain(storage.name));
      if (storage.versions > 1) p_.written.push_back(p_.store->handle(storage.name));
    }
    for (const auto& [name, uses] : plan_.packs) {
      p_.holds.push_back(p_.store->hold_packed(name, uses));
      (void)p_.store->packed(name, uses);
    }
    if (!plan_.packs.empty()) p_.store->allocator()->empty_cache();  // of plain forms: nothing else has their sizes
  }

  void allocate() {
    p_.blocks = p_.arena->take(plan_.memory.arena_bytes);
    plan_.report.arenas = 0;  // with what the allocator rounds up to
    for (const Arena::Block& block : p_.blocks) plan_.report.arenas += block->bytes();
    p_.copied.resize(plan_.transfers.size());
    for (std::size_t t = 0; t < p_.copied.size(); ++t) {
      const Transfer& transfer = plan_.transfers[t];
      p_.copied[t].device = plane_at(plan_.place_of_transfer(static_cast<std::int32_t>(t)));
      if (p_.store->only_counts()) continue;
      const int turns = transfer.to_device && plan_.options.prepare_ahead ? 2 : 1;
      for (int turn = 0; turn < turns; ++turn) {
        p_.copied[t].staging[static_cast<std::size_t>(turn)] = plan_.device->allocate_host(transfer.bytes);
      }
    }
    if (p_.store->only_counts()) return;
    for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
      // An output that lies among others, or one with memory of its own.
      const FieldPlace at = plan_.outputs[o];
      if (plan_.field(at).offset == 0) {
        p_.copied[index(at.transfer)].device = tensor_of(graph().outputs()[o].value).planes[0];
      }
    }
  }

  [[nodiscard]] tern_plane plane_at(const MemoryPlace& at) const {
    return at.arena < 0 ? tern_plane{} : p_.blocks[index(at.arena)]->plane(at.offset);
  }

  [[nodiscard]] tern_plane place(std::int32_t storage) const {
    const Storage& info = graph().storages()[index(storage)];
    if (info.is_stored()) return p_.store->at(info.name).planes[0];
    const FieldPlace field = plan_.field_of_storage[index(storage)];
    if (field.transfer < 0) return plane_at(plan_.place_of_storage(storage));
    tern_plane plane = plane_at(plan_.place_of_transfer(field.transfer));
    plane.offset += plan_.field(field).offset;
    return plane;
  }

  [[nodiscard]] accel::BindMemory memory_of(std::size_t s) {
    accel::BindMemory memory;
    memory.workspace = plane_at(plan_.place_of_workspace(s));
    if (plan_.counts.transfer >= 0) {
      memory.counts = plane_at(plan_.place_of_transfer(plan_.counts.transfer));
      memory.counts.offset += plan_.field(plan_.counts).offset;
    }
    memory.host_scratch = p_.steps[s].scratch.data();
    return memory;
  }

  [[nodiscard]] tern_tensor tensor_of(Value value) const {
    const ValueInfo& info = graph().info(value);
    const Storage& storage = graph().storage_of(value);
    tern_tensor tensor{};
    if (storage.is_stored()) {
      tensor = p_.store->at(storage.name);
    } else {
      tensor.planes[0] = place(info.storage);
    }
    tensor.desc = info.desc;
    tensor.planes[0].offset += static_cast<std::uint64_t>(info.offset) * total_bytes(make_desc(info.desc.dtype, {1}));
    return tensor;
  }

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
    for (const PackedArg& arg : plan_.packed_args) {
      if (arg.node == n) tensors[arg.arg] = p_.store->packed(arg.name, arg.uses);
    }
    return tensors;
  }

  void bind_steps() {
    p_.steps.resize(plan_.steps.size());
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      const PlannedStep& planned = plan_.steps[s];
      Step& step = p_.steps[s];
      if (planned.records) step.event = plan_.device->make_event();
      step.scratch.resize(planned.info.host_scratch_bytes);
      if (plan_.options.probe && !planned.nodes.empty()) show_to_probe(planned, step);
      if (planned.kind == StepKind::launch) {
        step.tensors = node_tensors(planned.nodes[0]);
        step.bound = planned.kernel->bind(step.tensors, memory_of(s));
      } else if (planned.kind == StepKind::recipe) {
        step.tensors = recipe_tensors(planned);
        step.memory = memory_of(s);  // handed over at each launch
      } else if (planned.kind == StepKind::host) {
        bind_on_host(planned, step);
      } else if (planned.kind == StepKind::program) {
        step.tensors = stored_tensors(planned.nodes[0]);
        step.host_data = host_data_of(planned.nodes[0]);
      }
    }
  }

  // The host's side of a copy; null where the node has none.
  [[nodiscard]] std::byte* host_data_of(std::int32_t n) const {
    for (const Value value : node(n).call.inputs) {
      if (!value.present() || !graph().storage_of(value).on_host) continue;
      const std::uint64_t element = total_bytes(make_desc(graph().desc(value).dtype, {1}));
      return p_.store->host_bytes(graph().storage_of(value).name).data() +
             static_cast<std::uint64_t>(graph().info(value).offset) * element;
    }
    return nullptr;
  }

  [[nodiscard]] std::vector<tern_tensor> recipe_tensors(const PlannedStep& planned) const {
    std::vector<tern_tensor> tensors;
    for (const std::int32_t storage : recipe_arguments(graph(), planned.nodes)) {
      const Storage& info = graph().storages()[index(storage)];
      tern_tensor tensor{};
      if (info.is_stored()) tensor = p_.store->at(info.name);
      tensor.desc = info.desc;
      if (!info.is_stored()) tensor.planes[0] = place(storage);
      tensors.push_back(tensor);
    }
    return tensors;
  }

  void show_to_probe(const PlannedStep& planned, Step& step) {
    step.stored = stored_tensors(planned.nodes[0]);
    step.packed = std::make_unique<bool[]>(step.stored.size());
    for (const PackedArg& arg : plan_.packed_args) {
      if (arg.node == planned.nodes[0]) step.packed[arg.arg] = true;
    }
  }

  void bind_on_host(const PlannedStep& planned, Step& step) {
    const accel::DevicePtr& host = plan_.host;
    step.tensors = node_tensors(planned.nodes[0]);
    step.host = std::make_unique<HostCall>();
    step.host->scratch.resize(planned.kernel->info().host_scratch_bytes);
    if (const std::uint64_t bytes = planned.kernel->info().workspace_bytes; bytes > 0) {
      step.host->workspace = host->allocate(bytes, "a host fallback's workspace");
    }
    std::vector<tern_tensor> tensors = step.tensors;
    for (tern_tensor& tensor : tensors) {
      const PlaneBytes planes = is_present(tensor.desc) ? plane_bytes(tensor.desc) : PlaneBytes{};
      for (int p = 0; p < TERN_MAX_PLANES; ++p) {
        tensor.planes[p] = {};
        if (planes.bytes[p] == 0) continue;
        step.host->memory.push_back(host->allocate(planes.bytes[p], "a host fallback's argument"));
        step.host->staging.push_back(plan_.device->allocate_host(planes.bytes[p]));
        tensor.planes[p] = step.host->memory.back().plane();
      }
    }
    accel::BindMemory memory;
    if (step.host->workspace) memory.workspace = step.host->workspace.plane();
    step.host->counts = host->allocate(sizeof(tern_host_args::counts), "a host fallback's counts");
    memory.counts = step.host->counts.plane();
    memory.host_scratch = step.host->scratch.data();
    step.host->bound = planned.kernel->bind(tensors, memory);
  }

  void set_up_launches() {
    p_.inputs.resize(plan_.inputs.size());
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) p_.inputs[i].used_bytes.fill(plan_.field(plan_.inputs[i]).bytes);
    p_.output_bytes.resize(plan_.outputs.size());
    p_.launches.resize(plan_.launch_args.size());
    for (std::size_t l = 0; l < p_.launches.size(); ++l) {
      LaunchState& launch = p_.launches[l];
      launch.arrays.resize(plan_.launch_args[l].lengths.size());
      launch.args.size = sizeof(launch.args);
      launch.args.num_arrays = static_cast<std::uint32_t>(launch.arrays.size());
      launch.args.arrays = launch.arrays.data();
      for (const LaunchArgs::Lengths& lengths : plan_.launch_args[l].lengths) {
        const Field& field = plan_.field(plan_.inputs[index(lengths.input)]);
        if (plan_.options.capture) p_.inputs[index(lengths.input)].launched.resize(field.bytes);
      }
    }
    p_.updates.reserve(plan_.steps.size());
    for (const PlannedStep& step : plan_.steps) {
      auto& stream = p_.streams[static_cast<std::size_t>(step.lane)];
      if (stream == nullptr) stream = &p_.arena->stream(step.lane);
    }
    p_.pack_changes = p_.store->pack_changes();
  }

  Program::Impl& p_;
  ProgramPlan& plan_;
};

}  // namespace

std::unique_ptr<Program> Program::build(const Graph& graph, const std::shared_ptr<TensorStore>& store,
                                        accel::ChoiceCache& choices, const ProgramOptions& options,
                                        const accel::DevicePtr& host, std::shared_ptr<Arena> arena) {
  return realise(plan_program(graph, store->device(), choices, options, host, store.get()), store, std::move(arena));
}

std::unique_ptr<Program> Program::realise(ProgramPlan plan, const std::shared_ptr<TensorStore>& store,
                                          std::shared_ptr<Arena> arena) {
  auto impl = std::make_unique<Impl>();
  impl->plan = std::move(plan);
  impl->store = store;
  impl->arena = arena ? std::move(arena) : std::make_shared<Arena>(store->allocator());
  Builder(*impl).build();
  return std::unique_ptr<Program>(new Program(std::move(impl)));
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;

const ProgramPlan& Program::plan() const { return impl_->plan; }

}  // namespace tern::graph
