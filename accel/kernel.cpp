#include "accel/kernel.h"

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/table.h"

namespace tern::accel {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string key_of(const tern_scheme& scheme) {
  const auto& [packing, bits, group_rows, group_cols, scale_dtype, flags] = scheme;
  if (packing == TERN_PACK_NONE) return {};
  return cat("{", packing, ",", bits, ",", group_rows, "x", group_cols, ",", scale_dtype, ",", flags, "}");
}

// As people read it, and then what that text leaves out. `reserved` is zero in this version.
std::string key_of(const TensorDesc& tensor) {
  const auto& [dtype, layout, scheme, rank, dynamic_dim, count_slot, reserved, shape, strides] = tensor;
  std::string out = to_string(tensor);  // rank, shape, strides with gaps, layout
  if (rank == 0) return out;
  if (is_quantised(tensor)) out += cat("->", dtype_name(dtype), key_of(scheme));
  if (dynamic_dim >= 0) out += cat("~", static_cast<int>(dynamic_dim), ".", static_cast<int>(count_slot));
  return out;
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
  char reason[512] = "";
  const tern_op_desc c = desc.c_desc();
  const tern_status status = device.api().supports(device.raw(), &c, {reason, sizeof(reason)});
  if (status == TERN_OK) return {true, {}};
  if (status != TERN_UNSUPPORTED) check(status, device.backend(), cat(device.name(), ": asking for ", desc.key()));
  return {false, reason};
}

std::uint64_t Bound::launch(const tern_host_args& host_args, const Stream& stream) const {
  std::uint64_t node = 0;
  check(device()->api().launch(raw(), &host_args, stream.raw(), &node), device()->backend(),
        cat(device()->name(), ": launching a kernel"));
  return node;
}

tern_status Plan::make(const DevicePtr& device, const OpDesc& desc, const std::string& choice) {
  info_.size = sizeof(info_);
  const tern_op_desc c = desc.c_desc();
  tern_plan raw = nullptr;
  const tern_status status =
      device->api().plan(device->raw(), &c, choice.empty() ? nullptr : choice.c_str(), &raw, &info_);
  if (status == TERN_OK) static_cast<Handle&>(*this) = Handle(device, raw);
  info_.choice[sizeof(info_.choice) - 1] = '\0';
  return status;
}

Plan::Plan(const DevicePtr& device, const OpDesc& desc, const std::string& choice) {
  check(make(device, desc, choice), device->backend(), cat(device->name(), ": planning ", desc.key()));
}

std::optional<Plan> Plan::of_choice(const DevicePtr& device, const OpDesc& desc, const std::string& choice) {
  Plan plan;
  const tern_status status = plan.make(device, desc, choice);
  if (status == TERN_UNSUPPORTED) return std::nullopt;
  check(status, device->backend(), cat(device->name(), ": planning ", desc.key(), " by the choice ", choice));
  return plan;
}

Bound Plan::bind(std::span<const tern_tensor> args, tern_plane workspace, void* host_scratch) const {
  tern_bound raw = nullptr;
  check(device()->api().bind(this->raw(), args.data(), workspace, host_scratch, &raw), device()->backend(),
        cat(device()->name(), ": binding a kernel"));
  return {device(), raw};
}

}  // namespace tern::accel
