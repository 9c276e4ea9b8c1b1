#include "conformance/device_emitter.h"

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/rules.h"

namespace tern::conformance {

using ops::OpCall;
using ops::Value;

DeviceEmitter::DeviceEmitter(Bench& bench, const Case& c) : bench_(bench), case_(c) {
  call_.op = c.op;
  call_.attrs = c.attrs;
  call_.needs = c.needs;
  call_.accumulate = c.accumulate;
  call_.inputs.resize(c.args.size());
  call_.outputs.assign(c.args.size(), absent_desc());
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const Argument& arg = c.args[i];
    if (!is_present(arg.desc)) continue;
    if (c.written(i)) call_.outputs[i] = arg.desc;
    if (!c.read(i)) continue;
    auto buffer = std::make_shared<accel::Buffer>(
        bench.device->allocate(std::max<std::size_t>(1, arg.planes[0].size()), "a case's argument"));
    uploads_.push_back(arg.planes[0]);
    if (!arg.planes[0].empty()) bench.device->copy_to_device(buffer->plane(), uploads_.back(), bench.stream);
    call_.inputs[i] = add(arg.desc, buffer);
    for (std::size_t p = 1; p < arg.planes.size(); ++p) {
      if (arg.planes[p].empty()) continue;
      auto& plane = entries_.back().more[p];
      plane = std::make_shared<accel::Buffer>(bench.device->allocate(arg.planes[p].size(), "a case's argument"));
      uploads_.push_back(arg.planes[p]);
      bench.device->copy_to_device(plane->plane(), uploads_.back(), bench.stream);
    }
  }
  bench.stream.synchronize();
}

Value DeviceEmitter::add(const TensorDesc& desc, std::shared_ptr<accel::Buffer> buffer) {
  entries_.push_back({desc, std::move(buffer), 0, {}});
  return {static_cast<std::int32_t>(entries_.size()) - 1};
}

const TensorDesc& DeviceEmitter::desc(Value value) const {
  return entries_.at(static_cast<std::size_t>(value.id)).desc;
}

Value DeviceEmitter::view(Value value, const TensorDesc& desc, std::int64_t offset) {
  Entry entry = entries_.at(static_cast<std::size_t>(value.id));
  entry.offset += static_cast<std::uint64_t>(offset * dtype_bytes(entry.desc.dtype));
  entry.desc = desc;
  entries_.push_back(std::move(entry));
  return {static_cast<std::int32_t>(entries_.size()) - 1};
}

tern_tensor DeviceEmitter::tensor(Value value) const {
  tern_tensor out{};
  const Entry& entry = entries_.at(static_cast<std::size_t>(value.id));
  out.desc = entry.desc;
  out.planes[0] = entry.buffer->plane(entry.offset);
  for (std::size_t p = 1; p < entry.more.size(); ++p) {
    if (entry.more[p]) out.planes[p] = entry.more[p]->plane();
  }
  return out;
}

ops::ref::Tensor DeviceEmitter::read(Value value) {
  const Entry& entry = entries_.at(static_cast<std::size_t>(value.id));
  std::array<Bytes, TERN_MAX_PLANES> planes;
  planes[0].resize(static_cast<std::size_t>(plane_bytes(entry.desc).bytes[0]));
  if (!planes[0].empty()) bench_.device->copy_to_host(planes[0], entry.buffer->plane(entry.offset), bench_.stream);
  bench_.stream.synchronize();
  return decode(entry.desc, planes, case_.counts);
}

std::vector<Value> DeviceEmitter::emit(const OpCall& call) {
  const ops::OpSpec& spec = ops::op_spec(call.op);
  accel::OpDesc desc;
  desc.op = call.op;
  desc.attrs = call.attrs;
  desc.needs = call.needs;
  desc.accumulate = call.accumulate;
  for (std::size_t i = 0; i < spec.args.size(); ++i) {
    const bool written = spec.args[i].role != ops::Role::input;
    desc.args.push_back(written ? call.outputs[i]
                                : (call.inputs[i].present() ? this->desc(call.inputs[i]) : absent_desc()));
  }
  std::vector<Value> results(spec.args.size());
  const accel::Verdict verdict = stuck_ ? accel::Verdict{} : accel::supports(*bench_.device, desc);
  if (!stuck_ && !verdict.native) {
    const auto decompose = ops::op_rules(call.op).decompose;
    if (decompose != nullptr) results = decompose(*this, call);
    if (decompose != nullptr && !results.empty()) return results;
    stuck_ = true;
    stuck_on_ = cat(spec.name, ": ", verdict.reason);
    results.assign(spec.args.size(), Value{});
  }
  Case lengths;  // the arguments whose numbers the host gives
  lengths.op = call.op;
  lengths.counts = case_.counts;
  lengths.any_tails = case_.any_tails;
  lengths.args.resize(spec.args.size());
  std::vector<tern_tensor> tensors(spec.args.size());
  for (std::size_t i = 0; i < spec.args.size(); ++i) {
    tensors[i].desc = desc.args[i];
    if (!is_present(desc.args[i])) continue;
    const bool written = spec.args[i].role != ops::Role::input;
    const bool adds = spec.args[i].role == ops::Role::state || (call.accumulate >> i & 1U) != 0;
    if (written && !adds) {
      const auto bytes = std::max<std::uint64_t>(1, plane_bytes(desc.args[i]).bytes[0]);
      if (bytes > bench_.device->info().largest_allocation_bytes) {
        stuck_ = true;
        stuck_on_ = cat(spec.name, ": a part of ", human_bytes(bytes), " is larger than the device allocates at once");
      }
      auto buffer = std::make_shared<accel::Buffer>(bench_.device->allocate(stuck_ ? 1 : bytes, "an intermediate"));
      if (!stuck_) bench_.device->fill(buffer->plane(), 0, bytes, bench_.stream);
      results[i] = add(desc.args[i], std::move(buffer));
    } else if (written) {
      results[i] = call.inputs[i];
    }
    tensors[i] = tensor(written ? results[i] : call.inputs[i]);
    if ((spec.args[i].flags & ops::kLengths) != 0) {
      lengths.args[i].desc = desc.args[i];
      lengths.args[i].planes[0].resize(static_cast<std::size_t>(plane_bytes(desc.args[i]).bytes[0]));
      bench_.device->copy_to_host(lengths.args[i].planes[0], tensors[i].planes[0], bench_.stream);
      bench_.stream.synchronize();
    }
  }
  if (stuck_) return results;
  const Kernel kernel(bench_.device, desc, {});
  const auto instance = kernel.bind(tensors, 0);
  const HostArgs host_args(lengths);
  instance->launch(host_args.get(), bench_.stream, 0xff);
  bench_.stream.synchronize();
  return results;
}

}  // namespace tern::conformance
