#include "backends/sim/tails.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/index_check.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::sim {
namespace {

using ops::OpSpec;
using ops::Role;
using ops::ref::Tensor;

constexpr double kTail = 12345.0;

bool is_dynamic(const TensorDesc& desc) { return is_present(desc) && desc.dynamic_dim >= 0; }

std::int64_t capacity_of(const TensorDesc& desc) { return desc.shape[desc.dynamic_dim]; }

std::int64_t count_of(const TensorDesc& desc, const HostArgs& host) {
  return host.given ? host.counts.at(desc.count_slot) : capacity_of(desc);
}

// Where an element stands along the dynamic dimension.
std::int64_t row_of(const TensorDesc& desc, std::size_t element) {
  auto rest = static_cast<std::int64_t>(element);
  for (int d = desc.rank - 1; d > desc.dynamic_dim; --d) rest /= desc.shape[d];
  return rest % desc.shape[desc.dynamic_dim];
}

std::string beyond(std::string_view name, std::int64_t row, const std::string& expected, const std::string& found,
                   std::int64_t count) {
  return cat(name, "[", row, "], beyond the count of ", count, ": expected ", expected, ", found ", found);
}

// A device masks what stands beyond the count by a product, and no product rids it of a NaN.
std::string not_finite(std::string_view name, const TensorDesc& desc, std::int64_t count, const Tensor& tensor) {
  for (std::size_t e = 0; e < tensor.real.size(); ++e) {
    if (std::isfinite(tensor.real[e]) || row_of(desc, e) < count) continue;
    return beyond(name, row_of(desc, e), "a finite number", cat(tensor.real[e]), count);
  }
  return {};
}

// Sequences beyond the count are empty: where they begin is where the last one ended.
std::string not_repeated(std::string_view name, std::int64_t count, const Tensor& bounds) {
  if (count == 0) return {};
  const std::int64_t last = bounds.integer[static_cast<std::size_t>(count - 1)];
  for (auto i = static_cast<std::size_t>(count); i < bounds.integer.size(); ++i) {
    if (bounds.integer[i] == last) continue;
    return beyond(name, static_cast<std::int64_t>(i), cat(last, ", as the last sequence ends there"),
                  cat(bounds.integer[i]), count);
  }
  return {};
}

// Rows of padding are stored like all others, so they have their places where nobody reads.
std::string not_in_block_0(const KernelCall& call, std::int64_t count, const Tensor& slots) {
  const std::int64_t block = call.args[TERN_KV_WRITE_K_CACHE].desc.shape[1];
  for (auto i = static_cast<std::size_t>(count); i < slots.integer.size(); ++i) {
    if (slots.integer[i] >= 0 && slots.integer[i] < block) continue;
    return beyond("slots", static_cast<std::int64_t>(i), cat("a slot of block 0, 0 to ", block - 1),
                  cat(slots.integer[i]), count);
  }
  return {};
}

std::string argument_problem(const KernelCall& call, std::size_t arg, const ops::Indices& indices,
                             const Tensor& tensor) {
  const OpSpec& spec = ops::op_spec(call.op);
  const TensorDesc& desc = call.args[arg].desc;
  if (spec.args[arg].role != Role::input || !is_dynamic(desc)) return {};
  const std::int64_t count = count_of(desc, *call.host_args);
  std::string problem = not_finite(spec.args[arg].name, desc, count, tensor);
  for (const auto& sequences : indices.sequences) {
    if (problem.empty() && sequences.arg == static_cast<int>(arg)) {
      problem = not_repeated(spec.args[arg].name, count, tensor);
    }
  }
  if (problem.empty() && call.op == TERN_OP_KV_WRITE && arg == TERN_KV_WRITE_SLOTS) {
    problem = not_in_block_0(call, count, tensor);
  }
  return problem;
}

}  // namespace

TensorDesc cut(TensorDesc desc, const HostArgs& args) {
  if (is_dynamic(desc)) {
    desc.shape[desc.dynamic_dim] = count_of(desc, args);
    desc.dynamic_dim = -1;
  }
  return desc;
}

TensorDesc whole(TensorDesc desc) {
  desc.dynamic_dim = -1;
  return desc;
}

bool computes_tails(const KernelCall& call) {
  if (call.device->can(TERN_CAP_DYNAMIC_SHAPES)) return false;
  return std::any_of(call.args.begin(), call.args.end(), [&](const Operand& operand) {
    return is_dynamic(operand.desc) && count_of(operand.desc, *call.host_args) < capacity_of(operand.desc);
  });
}

std::string padding_problem(const KernelCall& call, std::span<const Tensor> args) {
  std::vector<TensorDesc> planned;
  for (const Operand& operand : call.args) planned.push_back(operand.desc);
  const ops::CallDesc desc{call.op, planned, call.attrs, call.accumulate};
  std::string problem = ops::index_problem(desc, args);
  if (!problem.empty()) problem += ", beyond the count";
  const ops::Indices indices = ops::op_rules(call.op).indices(desc);
  for (std::size_t i = 0; problem.empty() && i < args.size(); ++i) {
    problem = argument_problem(call, i, indices, args[i]);
  }
  if (problem.empty()) return problem;
  return cat(problem, "; this device computes the whole capacity, so the padding that the host gave is wrong");
}

void settle_tail(Tensor& output) {
  if (!dtype_info(output.desc.dtype).floating) return;
  const double most = ops::ref::largest_finite(output.desc.dtype);
  for (double& element : output.real) {
    if (std::isnan(element) || element == 0.0) element = kTail;
    element = std::clamp(element, -most, most);
  }
}

Tensor untouched_tail(const TensorDesc& desc) {
  Tensor tail;
  tail.desc = whole(desc);
  const auto count = static_cast<std::size_t>(num_elements(desc));
  if (dtype_info(desc.dtype).floating) {
    tail.real.assign(count, std::numeric_limits<double>::quiet_NaN());
  } else {
    tail.integer.assign(count, static_cast<std::int64_t>(kTail));
  }
  return tail;
}

}  // namespace tern::sim
