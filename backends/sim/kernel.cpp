#include "backends/sim/kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/sim/tails.h"
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

// All arguments of a call as its counts cut them, or at their whole capacity.
std::vector<Tensor> read_args(const KernelCall& call, bool at_capacity) {
  const OpSpec& spec = ops::op_spec(call.op);
  std::vector<Tensor> tensors(call.args.size());
  std::size_t array = call.first_array;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const Operand& operand = call.args[i];
    const bool lengths = (spec.args[i].flags & ops::kLengths) != 0;
    const std::size_t this_array = lengths ? array++ : 0;
    if (!is_present(operand.desc)) continue;
    const TensorDesc desc = at_capacity ? whole(operand.desc) : cut(operand.desc, *call.host_args);
    if (spec.args[i].role == Role::output && !adds(call.accumulate, i)) {
      tensors[i].desc = desc;
    } else if (lengths && call.device->can(TERN_CAP_HOST_LENGTHS)) {
      tensors[i] = host_lengths(desc, call.host_args->arrays.at(this_array));
    } else {
      tensors[i] = decode(operand, desc);
    }
  }
  return tensors;
}

void run_oracle(const KernelCall& call, std::vector<Tensor>& tensors) {
  ops::ref::Call reference{call.op, call.attrs, call.accumulate, tensors};
  ops::op_rules(call.op).reference(reference);
}

// Whatever an argument is told to hold: the rows that count over those that don't.
void write(const Operand& operand, const Tensor& counted, Tensor* tail) {
  if (tail != nullptr) ops::ref::encode(*tail, tail->desc, operand.planes[0]);
  ops::ref::encode(counted, counted.desc, operand.planes[0]);
}

// Sums over a counted dimension are those of the counted call; so is every row within the count. What `at_capacity`
// holds beyond is written too, but where the contract keeps what is there.
void write_results(const KernelCall& call, const std::vector<Tensor>& counted, std::vector<Tensor>& at_capacity) {
  const OpSpec& spec = ops::op_spec(call.op);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const Operand& operand = call.args[i];
    if (spec.args[i].role == Role::input || !is_present(operand.desc)) continue;
    const bool replaces = spec.args[i].role == Role::output && !adds(call.accumulate, i);
    if (spec.args[i].role == Role::state && !at_capacity.empty()) {
      write(operand, at_capacity[i], nullptr);
    } else if (!replaces || same_shape(counted[i].desc, operand.desc)) {
      write(operand, counted[i], nullptr);
    } else if (at_capacity.empty()) {
      Tensor tail = untouched_tail(operand.desc);
      write(operand, counted[i], &tail);
    } else {
      settle_tail(at_capacity[i]);
      write(operand, counted[i], &at_capacity[i]);
    }
  }
}

}  // namespace

void run_kernel(const KernelCall& call) {
  const std::string_view name = ops::op_spec(call.op).name;
  std::vector<Tensor> counted = read_args(call, false);
  std::vector<TensorDesc> planned;
  for (const Operand& operand : call.args) planned.push_back(operand.desc);
  if (std::string problem = ops::index_problem({call.op, planned, call.attrs, call.accumulate}, counted);
      !problem.empty()) {
    fail(TERN_INVALID_ARGUMENT, cat(name, ": ", problem));
  }
  std::vector<Tensor> at_capacity;
  if (computes_tails(call)) {
    at_capacity = read_args(call, true);
    if (std::string problem = padding_problem(call, at_capacity); !problem.empty()) {
      fail(TERN_INVALID_ARGUMENT, cat(name, ": ", problem));
    }
    run_oracle(call, at_capacity);
  }
  run_oracle(call, counted);
  write_results(call, counted, at_capacity);
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
