#include "backends/sim/kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/index_check.h"
#include "ops/ref/tensor.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::sim {
namespace {

using ops::OpSpec;
using ops::Role;
using ops::ref::Tensor;

// What stands beyond the count of an output, visible where something reads it: on devices that compute the whole
// capacity it is finite.
constexpr double kTail = 12345.0;
double tail_of(const Device& device, tern_dtype dtype) {
  if (device.can(TERN_CAP_DYNAMIC_SHAPES)) return std::numeric_limits<double>::quiet_NaN();
  return std::min(kTail, ops::ref::largest_finite(dtype));
}

TensorDesc cut(TensorDesc desc, const HostArgs& args) {
  if (!is_present(desc) || desc.dynamic_dim < 0) return desc;
  if (args.given) desc.shape[desc.dynamic_dim] = args.counts[desc.count_slot];
  desc.dynamic_dim = -1;
  return desc;
}

bool adds(std::uint32_t accumulate, std::size_t arg) { return (accumulate >> arg & 1U) != 0; }

Tensor decode(const Operand& operand, const TensorDesc& desc) {
  std::array<std::span<const std::byte>, TERN_MAX_PLANES> planes;
  if (desc.layout != 0) {
    const Unpacked weight = unpack_weight(operand.desc, operand.planes[0]);
    std::copy(weight.planes.begin(), weight.planes.end(), planes.begin());
    return ops::ref::decode(weight.desc, planes);
  }
  std::copy(operand.planes.begin(), operand.planes.end(), planes.begin());
  return ops::ref::decode(desc, planes);
}

// Lengths as the host gave them: the device's copy is never looked at.
Tensor host_lengths(const TensorDesc& desc, const std::vector<std::int32_t>& array) {
  Tensor tensor;
  tensor.desc = desc;
  const auto count = static_cast<std::size_t>(num_elements(desc));
  if (array.size() < count) {
    fail(TERN_INVALID_ARGUMENT, cat("host_args: expected ", count, " lengths, found ", array.size()));
  }
  tensor.integer.assign(array.begin(), array.begin() + static_cast<std::ptrdiff_t>(count));
  return tensor;
}

void write(const Device& device, const Operand& operand, const Tensor& tensor, bool replaces) {
  const std::span<std::byte> plane = operand.planes[0];
  if (replaces && !same_shape(tensor.desc, operand.desc)) {
    Tensor whole;
    whole.desc = operand.desc;
    const auto count = static_cast<std::size_t>(num_elements(operand.desc));
    if (dtype_info(operand.desc.dtype).floating) {
      whole.real.assign(count, tail_of(device, operand.desc.dtype));
    } else {
      whole.integer.assign(count, static_cast<std::int64_t>(kTail));
    }
    ops::ref::encode(whole, operand.desc, plane);
  }
  ops::ref::encode(tensor, tensor.desc, plane);
}

std::string packed_refusal(const Device& device, const OpSpec& spec, std::uint32_t op, std::span<const TensorDesc> args,
                           std::span<const std::byte> attrs) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_present(args[i]) || args[i].layout == 0) continue;
    if (packed_bytes(device, args[i]) == 0) {
      return cat(spec.args[i].name, ": layout ", args[i].layout, " is none of ", device.name());
    }
    const std::uint32_t uses = ops::op_rules(op).uses({op, args, attrs}, static_cast<int>(i));
    if ((layout_uses(args[i].layout) & uses) != uses) {
      return cat(spec.args[i].name, ": packed for other uses than this one");
    }
  }
  return {};
}

// What real devices of the kind lack, so that decompositions and fallbacks are walked.
std::string personality_refusal(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                                std::uint32_t accumulate) {
  if (!device.can(TERN_CAP_PHILOX)) {
    if (op == TERN_OP_DROPOUT && !is_present(args[TERN_DROPOUT_MASK])) {
      return "the device draws no random bits: a mask is needed";
    }
  }
  switch (device.config.personality) {
    case Personality::ascend:
      if (accumulate != 0 && op != TERN_OP_MATMUL && op != TERN_OP_MATMUL_Q && op != TERN_OP_ALL_FINITE &&
          op != TERN_OP_AXPBY) {
        return "only products and sums accumulate";
      }
      if ((op == TERN_OP_ATTENTION && is_present(args[TERN_ATTENTION_SINKS])) ||
          (op == TERN_OP_ATTENTION_BACKWARD && is_present(args[TERN_ATTENTION_BACKWARD_SINKS])) ||
          (op == TERN_OP_ATTENTION_PAGED && is_present(args[TERN_ATTENTION_PAGED_SINKS]))) {
        return "the fused attention takes no sinks";
      }
      if (op == TERN_OP_QK_NORM_ROPE || op == TERN_OP_QK_NORM_ROPE_BACKWARD) return "no fused kernel";
      break;
    case Personality::embedded:
      if (op == TERN_OP_RMS_NORM && is_present(args[TERN_RMS_NORM_RESIDUAL])) return "no fused residual";
      for (const TensorDesc& arg : args) {
        if (is_present(arg) && is_quantised(arg) && op != TERN_OP_DEQUANTIZE)
          return "quantised weights must be expanded";
      }
      break;
    case Personality::discrete:
    case Personality::graph:
      break;
  }
  return {};
}

}  // namespace

void run_kernel(const KernelCall& call) {
  const OpSpec& spec = ops::op_spec(call.op);
  const HostArgs& host = *call.host_args;
  std::vector<Tensor> tensors(call.args.size());
  std::size_t array = call.first_array;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const Operand& operand = call.args[i];
    const bool lengths = (spec.args[i].flags & ops::kLengths) != 0;
    const std::size_t this_array = lengths ? array++ : 0;
    if (!is_present(operand.desc)) continue;
    const TensorDesc desc = cut(operand.desc, host);
    if (spec.args[i].role == Role::output && !adds(call.accumulate, i)) {
      tensors[i].desc = desc;
    } else if (lengths && call.device->can(TERN_CAP_HOST_LENGTHS)) {
      tensors[i] = host_lengths(desc, host.arrays.at(this_array));
    } else {
      tensors[i] = decode(operand, desc);
    }
  }
  std::vector<TensorDesc> planned;
  for (const Operand& operand : call.args) planned.push_back(operand.desc);
  if (std::string problem = ops::index_problem({call.op, planned, call.attrs, call.accumulate}, tensors);
      !problem.empty()) {
    fail(TERN_INVALID_ARGUMENT, cat(spec.name, ": ", problem));
  }
  ops::ref::Call reference{call.op, call.attrs, call.accumulate, tensors};
  ops::op_rules(call.op).reference(reference);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (spec.args[i].role == Role::input || !is_present(call.args[i].desc)) continue;
    write(*call.device, call.args[i], tensors[i], spec.args[i].role == Role::output && !adds(call.accumulate, i));
  }
}

std::string why_not(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                    std::span<const std::byte> attrs, std::uint32_t needs, std::uint32_t accumulate) {
  if (op == 0 || op >= TERN_OP_LIMIT) return cat("op ", op, " is not known to this device");
  if (std::string problem = ops::check_call(op, args, attrs, accumulate); !problem.empty()) {
    fail(TERN_INVALID_ARGUMENT, problem);
  }
  const OpSpec& spec = ops::op_spec(op);
  const auto surplus = attrs.subspan(spec.attrs.size() * 4);
  if (std::any_of(surplus.begin(), surplus.end(), [](std::byte b) { return b != std::byte{0}; })) {
    return cat(spec.name, ": attributes of a newer version");
  }
  if ((needs & ~(std::uint32_t{TERN_NEED_DETERMINISTIC} | TERN_NEED_ROW_INVARIANT)) != 0) {
    return cat(spec.name, ": an unknown need");
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (is_present(args[i]) && (device.info.storage_dtypes >> args[i].dtype & 1U) == 0) {
      return cat(spec.name, ": ", spec.args[i].name, ": ", dtype_name(args[i].dtype), " is not stored");
    }
  }
  std::string reason = packed_refusal(device, spec, op, args, attrs);
  if (reason.empty()) reason = personality_refusal(device, op, args, accumulate);
  return reason.empty() ? reason : cat(spec.name, ": ", reason);
}

Operand find_operand(const Device& device, const tern_tensor& tensor, const std::string& what, bool check_alignment) {
  Operand operand{tensor.desc, {}};
  if (!is_present(tensor.desc)) return operand;
  PlaneBytes bytes{};
  if (tensor.desc.layout != 0) {
    bytes.bytes[0] = packed_bytes(device, tensor.desc);
  } else {
    bytes = plane_bytes(tensor.desc);
  }
  for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
    if (bytes.bytes[p] == 0) continue;
    const tern_plane& plane = tensor.planes[p];
    operand.planes[p] = world().plane(plane, bytes.bytes[p], what);
    const Buffer& buffer = *world().buffers.at(plane.buffer);
    if (buffer.device.get() != &device) fail(TERN_INVALID_ARGUMENT, cat(what, ": its memory is another device's"));
    const std::uint64_t unit = buffer.imported != nullptr ? device.info.import_alignment : device.info.alignment;
    if (check_alignment && plane.offset % unit != 0) {
      fail(TERN_INVALID_ARGUMENT,
           cat(what, ": expected an offset that is a multiple of ", unit, ", found ", plane.offset));
    }
  }
  return operand;
}

HostArgs counts_at_run(const Device& device, const HostArgs& host, tern_plane counts,
                       std::span<const TensorDesc> args) {
  HostArgs out = host;
  std::array<std::int64_t, TERN_MAX_COUNTS> there{};
  for (const TensorDesc& desc : args) {
    if (!is_present(desc) || desc.dynamic_dim < 0) continue;
    const auto bytes = world().plane(counts, sizeof there, "the plane of counts");
    std::memcpy(there.data(), bytes.data(), sizeof there);
    const std::int64_t found = there.at(desc.count_slot);
    if (host.captured && device.can(TERN_CAP_DEVICE_COUNTS)) {
      if (found < 0 || found > desc.shape[desc.dynamic_dim]) {
        fail(TERN_INVALID_ARGUMENT, cat("the plane of counts: count ", static_cast<int>(desc.count_slot),
                                        ": expected 0 to ", desc.shape[desc.dynamic_dim], ", found ", found));
      }
      out.counts.at(desc.count_slot) = found;
    } else if (found != host.counts.at(desc.count_slot)) {
      fail(TERN_INVALID_ARGUMENT,
           cat("the plane of counts holds ", found, " as count ", static_cast<int>(desc.count_slot), ", host_args ",
               host.counts.at(desc.count_slot)));
    }
  }
  return out;
}

LengthArrays length_arrays(std::uint32_t op, std::uint32_t given_args) {
  const ops::OpSpec& spec = ops::op_spec(op);
  LengthArrays arrays;
  arrays.or_more = given_args > spec.args.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(given_args, spec.args.size()); ++i) {
    arrays.expected += (spec.args[i].flags & ops::kLengths) != 0 ? 1 : 0;
  }
  return arrays;
}

HostArgs copy_host_args(const Device& device, const tern_host_args* given, const LengthArrays& arrays,
                        std::span<const TensorDesc> args) {
  HostArgs copy;
  if (given == nullptr) {
    const bool dynamic = std::any_of(args.begin(), args.end(),
                                     [](const TensorDesc& desc) { return is_present(desc) && desc.dynamic_dim >= 0; });
    if (arrays.expected > 0 || dynamic) fail(TERN_INVALID_ARGUMENT, "host_args are missing");
    return copy;
  }
  copy.given = true;
  std::copy(std::begin(given->counts), std::end(given->counts), copy.counts.begin());
  for (const TensorDesc& desc : args) {
    if (!is_present(desc) || desc.dynamic_dim < 0) continue;
    const std::int64_t count = copy.counts[desc.count_slot];
    if (count < 0 || count > desc.shape[desc.dynamic_dim]) {
      fail(TERN_INVALID_ARGUMENT, cat("host_args: count ", static_cast<int>(desc.count_slot), ": expected 0 to ",
                                      desc.shape[desc.dynamic_dim], ", found ", count));
    }
  }
  const bool fits = given->num_arrays == arrays.expected || (arrays.or_more && given->num_arrays > arrays.expected);
  if (!fits && (given->num_arrays != 0 || device.can(TERN_CAP_HOST_LENGTHS))) {
    fail(TERN_INVALID_ARGUMENT,
         cat("host_args: expected ", arrays.expected, " arrays of lengths, found ", given->num_arrays));
  }
  for (std::uint32_t i = 0; i < given->num_arrays; ++i) {
    const tern_host_array& array = given->arrays[i];
    require(array.count >= 0 && (array.data != nullptr || array.count == 0), "host_args: a null or negative array");
    copy.arrays.emplace_back(array.data, array.data + array.count);
  }
  return copy;
}

}  // namespace tern::sim
