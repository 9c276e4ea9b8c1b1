#include "conformance/kernel_run.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace tern::conformance {
namespace {

constexpr std::size_t kScratchZone = 64;
constexpr std::byte kScratchByte{0xb9};

constexpr std::byte kJunk{0x5a};  // in whatever must not be looked at

// A struct that begins with its size.
template <typename T>
const T* put_struct(Pages& pages, const T& from, HostVersion version) {
  if (version != HostVersion::newer) return pages.put_one(from);
  Bytes longer(sizeof(T) + 24, kJunk);
  T grown = from;
  grown.size = static_cast<std::uint32_t>(longer.size());
  std::memcpy(longer.data(), &grown, sizeof(T));
  return reinterpret_cast<const T*>(pages.put(longer));
}

// An absent argument's desc: only its rank means anything.
TensorDesc junk_desc() {
  TensorDesc desc;
  std::memset(&desc, static_cast<int>(kJunk), sizeof(desc));
  desc.rank = 0;
  return desc;
}

// As many arguments and attributes as the host's version has.
accel::OpDesc as_of(accel::OpDesc desc, HostVersion version) {
  if (version == HostVersion::newer) {
    desc.args.push_back(junk_desc());
    if (!desc.alias.empty()) desc.alias.push_back(-1);
    desc.attrs.resize(desc.attrs.size() + 8);
  }
  if (version != HostVersion::older) return desc;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  while (!desc.args.empty() && !is_present(desc.args.back())) desc.args.pop_back();
  if (!desc.alias.empty()) desc.alias.resize(desc.args.size());
  while (desc.attrs.size() >= 4 && std::all_of(desc.attrs.end() - 4, desc.attrs.end(), is_zero)) {
    desc.attrs.resize(desc.attrs.size() - 4);
  }
  return desc;
}

// `desc` with everything that it points to in `pages`.
tern_op_desc put(Pages& pages, const accel::OpDesc& desc) {
  tern_op_desc out = desc.c_desc();
  out.args = pages.put(desc.args);
  out.attrs = pages.put(desc.attrs);
  out.alias = pages.put(desc.alias);
  return out;
}

const tern_plan_options* put_options(Pages& pages, const std::string& choice, HostVersion version) {
  tern_plan_options out = accel::PlanOptions{}.c_options();
  if (!choice.empty()) out.choice = pages.put_text(choice);
  return put_struct(pages, out, version);
}

const tern_bind_args* put(Pages& pages, const std::vector<tern_tensor>& tensors, const accel::BindMemory& memory,
                          HostVersion version) {
  tern_bind_args out = accel::bind_args(tensors, memory);
  out.args = pages.put(tensors);
  return put_struct(pages, out, version);
}

// As many as the op's arguments in the host's version.
std::vector<tern_tensor> as_of(std::vector<tern_tensor> tensors, HostVersion version) {
  if (version == HostVersion::newer) {
    tern_tensor extra;
    std::memset(&extra, static_cast<int>(kJunk), sizeof(extra));
    extra.desc = junk_desc();
    tensors.push_back(extra);
  }
  while (version == HostVersion::older && !tensors.empty() && !is_present(tensors.back().desc)) tensors.pop_back();
  return tensors;
}

// The arrays of what an older host doesn't know.
void drop_absent(const Case& c, std::vector<tern_host_array>& arrays) {
  for (std::size_t i = c.args.size(); i-- > 0 && !is_present(c.args[i].desc);) {
    if ((c.spec().args[i].flags & ops::kLengths) != 0) arrays.pop_back();
  }
}

}  // namespace

HostArgs::HostArgs(const Case& c, HostVersion version) {
  const HostLengths lengths = host_lengths(c);
  std::vector<tern_host_array> arrays;
  for (const auto& array : lengths.arrays) {
    arrays.push_back({pages_.put(array), static_cast<std::int64_t>(array.size())});
  }
  tern_host_args args{};
  args.size = sizeof(args);
  if (version == HostVersion::newer) arrays.push_back({});  // of the argument that is not there
  if (version == HostVersion::older) drop_absent(c, arrays);
  args.num_arrays = static_cast<std::uint32_t>(arrays.size());
  args.arrays = pages_.put(arrays);
  std::copy(c.counts.begin(), c.counts.end(), args.counts);
  args_ = put_struct(pages_, args, version);
}

Kernel::Kernel(const accel::DevicePtr& device, const accel::OpDesc& desc, const std::string& choice, bool whole_graph,
               HostVersion version)
    : device_(device), version_(version) {
  info_.size = sizeof(info_);
  if (whole_graph || !device->can(TERN_CAP_EAGER)) {
    compile(as_of(desc, version), choice);
  } else {
    plan(as_of(desc, version), choice);
  }
  info_.choice[sizeof(info_.choice) - 1] = '\0';
}

void Kernel::plan(const accel::OpDesc& desc, const std::string& choice) {
  const tern_op_desc* given = given_.put_one(put(given_, desc));
  tern_plan raw = nullptr;
  const tern_status status =
      device_->api().plan(device_->raw(), given, put_options(given_, choice, version_), &raw, &info_);
  given_.take_away();
  accel::check(status, device_->backend(), cat(device_->name(), ": planning ", desc.key()));
  plan_ = Plan(device_, raw);
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
  node.op = put(given_, desc);
  node.op.args = nullptr;
  node.op.alias = nullptr;
  node.lane = TERN_LANE_COMPUTE;
  node.inputs = given_.put(inputs);
  node.outputs = given_.put(outputs);
  tern_graph_desc graph{};
  graph.size = sizeof(graph);
  graph.num_values = static_cast<std::uint32_t>(values.size());
  graph.num_nodes = 1;
  graph.num_arguments = static_cast<std::uint32_t>(recipe_args_.size());
  graph.values = given_.put(values);
  graph.nodes = given_.put_one(node);
  tern_recipe raw = nullptr;
  const tern_graph_desc* given = put_struct(given_, graph, version_);
  accel::check(device_->api().compile(device_->raw(), given, put_options(given_, choice, version_), &raw, &info_),
               device_->backend(), "compiling a graph of one node");
  given_.take_away();
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
    tern_bound raw = nullptr;
    accel::check(
        device_->api().bind(plan_.raw(), put(out->given_, as_of(tensors, version_), out->memory_, version_), &raw),
        device_->backend(), cat(device_->name(), ": binding a kernel"));
    out->given_.take_away();
    out->bound_ = accel::Bound(device_, raw);
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
  Pages pages;
  const tern_bind_args* given = put(pages, arguments_, memory_, kernel_->version_);
  accel::check(device->api().launch_recipe(kernel_->recipe_.raw(), given, &host_args, stream.raw()), device->backend(),
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
