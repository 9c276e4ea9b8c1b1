#include "conformance/kernel_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tern::conformance {
namespace {

constexpr std::size_t kScratchZone = 64;
constexpr std::byte kScratchByte{0xb9};

}  // namespace

HostArgs::HostArgs(const Case& c) {
  const HostLengths lengths = host_lengths(c);
  std::size_t need = sizeof(tern_host_args) + lengths.arrays.size() * sizeof(tern_host_array);
  for (const auto& array : lengths.arrays) need += array.size() * sizeof(std::int32_t) + 16;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (need + page - 1) / page * page;
  pages_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages_ == MAP_FAILED) throw std::bad_alloc();
  auto* at = static_cast<std::byte*>(pages_);
  auto* args = new (at) tern_host_args{};
  auto* arrays = reinterpret_cast<tern_host_array*>(at + sizeof(tern_host_args));
  at += sizeof(tern_host_args) + lengths.arrays.size() * sizeof(tern_host_array);
  for (std::size_t i = 0; i < lengths.arrays.size(); ++i) {
    const auto& from = lengths.arrays[i];
    if (!from.empty()) std::memcpy(at, from.data(), from.size() * sizeof(std::int32_t));
    arrays[i] = {reinterpret_cast<const std::int32_t*>(at), static_cast<std::int64_t>(from.size())};
    at += from.size() * sizeof(std::int32_t);
  }
  args->size = sizeof(tern_host_args);
  args->num_arrays = static_cast<std::uint32_t>(lengths.arrays.size());
  args->arrays = arrays;
  std::copy(c.counts.begin(), c.counts.end(), args->counts);
  args_ = args;
}

void HostArgs::unmap() {
  if (pages_ != nullptr) munmap(pages_, bytes_);
  pages_ = nullptr;
}

HostArgs::~HostArgs() { unmap(); }

Kernel::Kernel(const accel::DevicePtr& device, const accel::OpDesc& desc, const std::string& choice, bool whole_graph)
    : device_(device) {
  if (whole_graph || !device->can(TERN_CAP_EAGER)) {
    compile(desc, choice);
    return;
  }
  accel::PlanOptions options;
  options.choice = choice;
  plan_ = accel::Plan(device, desc, options);
  info_ = plan_.info();
}

// A graph of one node: states and accumulating outputs are two versions of one resource.
void Kernel::compile(const accel::OpDesc& desc, const std::string& choice) {
  const ops::OpSpec& spec = ops::op_spec(desc.op);
  std::vector<tern_graph_value> values;
  std::vector<std::int32_t> inputs(desc.args.size(), -1);
  std::vector<std::int32_t> outputs(desc.args.size(), -1);
  for (std::size_t i = 0; i < desc.args.size(); ++i) {
    if (!is_present(desc.args[i])) continue;
    const auto argument = static_cast<std::int32_t>(recipe_args_.size());
    recipe_args_.push_back(i);
    const bool written = spec.args[i].role != ops::Role::input;
    const bool read = spec.args[i].role != ops::Role::output || (desc.accumulate >> i & 1U) != 0;
    auto add = [&](std::int32_t kind, std::int32_t version) {
      tern_graph_value value{};
      value.desc = desc.args[i];
      value.kind = kind;
      value.state = kind == TERN_VALUE_STATE ? argument : -1;
      value.version = version;
      value.argument = argument;
      values.push_back(value);
      return static_cast<std::int32_t>(values.size()) - 1;
    };
    if (read) inputs[i] = add(written ? TERN_VALUE_STATE : TERN_VALUE_INPUT, 0);
    if (written) outputs[i] = add(read ? TERN_VALUE_STATE : TERN_VALUE_OUTPUT, 1);
  }
  tern_graph_node node{};
  node.op = desc.c_desc();
  node.op.args = nullptr;
  node.op.alias = nullptr;
  node.lane = TERN_LANE_COMPUTE;
  node.inputs = inputs.data();
  node.outputs = outputs.data();
  tern_graph_desc graph{};
  graph.size = sizeof(graph);
  graph.num_values = static_cast<std::uint32_t>(values.size());
  graph.num_nodes = 1;
  graph.num_arguments = static_cast<std::uint32_t>(recipe_args_.size());
  graph.values = values.data();
  graph.nodes = &node;
  info_.size = sizeof(info_);
  tern_recipe raw = nullptr;
  accel::PlanOptions options;
  options.choice = choice;
  const tern_plan_options how = options.c_options();
  accel::check(device_->api().compile(device_->raw(), &graph, &how, &raw, &info_), device_->backend(),
               "compiling a graph of one node");
  recipe_ = accel::Recipe(device_, raw);
}

std::unique_ptr<Kernel::Instance> Kernel::bind(const std::vector<tern_tensor>& tensors, int shift) const {
  auto out = std::make_unique<Instance>();
  out->kernel_ = this;
  if (info_.workspace_bytes > 0) out->workspace_.emplace(device_, info_.workspace_bytes, shift, "a workspace");
  out->scratch_.assign(info_.host_scratch_bytes + 2 * kScratchZone, kScratchByte);
  std::byte* scratch = info_.host_scratch_bytes > 0 ? out->scratch_.data() + kScratchZone : nullptr;
  out->counts_.emplace(device_, sizeof(tern_host_args::counts), shift, "the counts");
  out->memory_ = {out->workspace_ ? out->workspace_->plane() : tern_plane{}, out->counts_->plane(), scratch};
  if (!recipe_) {
    out->bound_ = plan_.bind(tensors, out->memory_);
  } else {
    for (std::size_t arg : recipe_args_) out->arguments_.push_back(tensors[arg]);
  }
  return out;
}

std::uint64_t Kernel::Instance::launch(const tern_host_args& host_args, const accel::Stream& stream, int poison) {
  if (workspace_ && poison >= 0) {
    workspace_->upload(Bytes(workspace_->bytes(), static_cast<std::byte>(poison)), stream);
  }
  if (poison >= 0) upload_counts(host_args, stream);
  const accel::DevicePtr& device = kernel_->device_;
  if (!kernel_->recipe_) return bound_.launch(host_args, stream);
  const tern_bind_args args = accel::bind_args(arguments_, memory_);
  accel::check(device->api().launch_recipe(kernel_->recipe_.raw(), &args, &host_args, stream.raw()), device->backend(),
               "launching a recipe");
  return 0;
}

void Kernel::Instance::upload_counts(const tern_host_args& host_args, const accel::Stream& stream) {
  counts_->upload(std::as_bytes(std::span(host_args.counts)), stream);
}

std::string Kernel::Instance::check_workspace(const accel::Stream& stream) {
  if (workspace_) {
    const Bytes image = workspace_->fetch(stream);
    stream.synchronize();
    if (!workspace_->zones_intact(image)) return "memory beyond the workspace was written";
  }
  const auto is_zone = [](std::byte byte) { return byte == kScratchByte; };
  const bool front = std::all_of(scratch_.begin(), scratch_.begin() + kScratchZone, is_zone);
  const bool back = std::all_of(scratch_.end() - kScratchZone, scratch_.end(), is_zone);
  return front && back ? std::string() : "memory beyond the host scratch was written";
}

}  // namespace tern::conformance
