#include "accel/kernel.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/table.h"

namespace tern::accel {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string key_of(const tern_scheme& scheme) {
  const auto& [packing, bits, group_rows, group_cols, scale_dtype, flags, reserved] = scheme;
  if (packing == TERN_PACK_NONE) return {};
  return cat("{", packing, ",", bits, ",", group_rows, "x", group_cols, ",", scale_dtype, ",", flags, "}");
}

// As people read it, and then what that text leaves out. `reserved` is zero in this version.
std::string key_of(const TensorDesc& tensor) {
  const auto& [dtype, layout, scheme, rank, dynamic_dim, count_slot, reserved, shape, strides, tail] = tensor;
  std::string out = to_string(tensor);  // rank, shape, strides with gaps, layout
  if (rank == 0) return out;
  if (is_quantised(tensor)) out += cat("->", dtype_name(dtype), key_of(scheme));
  if (dynamic_dim >= 0) out += cat("~", static_cast<int>(dynamic_dim), ".", static_cast<int>(count_slot));
  return out;
}

// The argument that is left out though it must be there in the plugin's version of the interface; null: none.
const ops::ArgSpec* newly_optional(const OpDesc& desc, std::uint32_t minor) {
  const auto specs = ops::op_spec(desc.op).args;
  for (std::size_t i = 0; i < std::min(specs.size(), desc.args.size()); ++i) {
    if (specs[i].optional_since > minor && !is_present(desc.args[i])) return &specs[i];
  }
  return nullptr;
}

}  // namespace

tern_op_desc OpDesc::c_desc() const {
  return {sizeof(tern_op_desc),
          op,
          needs,
          accumulate,
          static_cast<std::uint32_t>(args.size()),
          static_cast<std::uint32_t>(attrs.size()),
          args.data(),
          attrs.empty() ? nullptr : attrs.data(),
          alias.empty() ? nullptr : alias.data()};
}

std::string OpDesc::key() const {
  // Every field by name: one that is added does not compile until it is part of the key.
  const auto& [op_id, tensors, attributes, asked, adds, shared] = *this;
  std::string out(ops::op_spec(op_id).name);
  for (const TensorDesc& tensor : tensors) out += cat(" ", key_of(tensor));
  out += cat(" n", asked, " a", adds, " ");
  for (const std::byte byte : attributes) {
    out += kHex[static_cast<unsigned>(byte) >> 4];
    out += kHex[static_cast<unsigned>(byte) & 15];
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    if (shared[i] >= 0) out += cat(" ", i, "=", static_cast<int>(shared[i]));
  }
  return out;
}

Verdict supports(const Device& device, const OpDesc& desc) {
  const std::uint32_t minor = device.api().abi_minor;
  if (const ops::ArgSpec* arg = newly_optional(desc, minor)) {
    return {false, cat("the plugin was built for version ", TERN_ABI_MAJOR, ".", minor, " of the interface, where ",
                       arg->name, " is not optional")};
  }
  char reason[512] = "";
  const tern_op_desc c = desc.c_desc();
  const tern_status status = device.api().supports(device.raw(), &c, {reason, sizeof(reason)});
  if (status == TERN_OK) return {true, {}};
  if (status != TERN_UNSUPPORTED) check(status, device.backend(), device.name(), ": asking for ", desc.key());
  return {false, reason};
}

std::uint64_t Bound::launch(const tern_host_args& host_args, const Stream& stream) const {
  std::uint64_t node = 0;
  check(device()->api().launch(raw(), &host_args, stream.raw(), &node), device()->backend(), device()->name(),
        ": launching a kernel");
  return node;
}

tern_plan_options PlanOptions::c_options() const {
  tern_plan_options out{};
  out.size = sizeof(out);
  out.choice = choice.empty() ? nullptr : choice.c_str();
  out.workspace_limit = workspace_limit;
  std::copy(typical_counts.begin(), typical_counts.end(), out.typical_counts);
  return out;
}

tern_bind_args bind_args(std::span<const tern_tensor> args, const BindMemory& memory) {
  tern_bind_args out{};
  out.size = sizeof(out);
  out.num_args = static_cast<std::uint32_t>(args.size());
  out.args = args.data();
  out.workspace = memory.workspace;
  out.counts = memory.counts;
  out.host_scratch = memory.host_scratch;
  return out;
}

tern_status Plan::make(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options) {
  info_.size = sizeof(info_);
  const tern_op_desc c = desc.c_desc();
  const tern_plan_options how = options.c_options();
  tern_plan raw = nullptr;
  const tern_status status = device->api().plan(device->raw(), &c, &how, &raw, &info_);
  if (status == TERN_OK) static_cast<Handle&>(*this) = Handle(device, raw);
  info_.choice[sizeof(info_.choice) - 1] = '\0';
  return status;
}

Plan::Plan(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options) {
  check(make(device, desc, options), device->backend(), device->name(), ": planning ", desc.key());
}

std::optional<Plan> Plan::of_choice(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options) {
  Plan plan;
  const tern_status status = plan.make(device, desc, options);
  if (status == TERN_UNSUPPORTED) return std::nullopt;
  check(status, device->backend(), device->name(), ": planning ", desc.key(), " by the choice ", options.choice);
  return plan;
}

Bound Plan::bind(std::span<const tern_tensor> args, const BindMemory& memory) const {
  tern_bound raw = nullptr;
  const tern_bind_args given = bind_args(args, memory);
  check(device()->api().bind(this->raw(), &given, &raw), device()->backend(), device()->name(), ": binding a kernel");
  return {device(), raw};
}

}  // namespace tern::accel
