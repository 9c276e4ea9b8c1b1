#include "accel/kernel.h"

#include "base/strings.h"
#include "ops/table.h"

namespace tern::accel {
namespace {

constexpr char kHex[] = "0123456789abcdef";

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
  std::string out(ops::op_spec(op).name);
  for (const auto& arg : args) {
    out += cat(" ", to_string(arg));
    if (is_quantised(arg)) out += cat("->", arg.dtype);
    if (arg.dynamic_dim >= 0) out += cat("~", static_cast<int>(arg.dynamic_dim));
  }
  out += cat(" n", needs, " a", accumulate, " ");
  for (std::byte byte : attrs) {
    out += kHex[static_cast<unsigned>(byte) >> 4];
    out += kHex[static_cast<unsigned>(byte) & 15];
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
