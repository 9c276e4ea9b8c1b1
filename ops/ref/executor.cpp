#include "ops/ref/executor.h"

#include <algorithm>
#include <stdexcept>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/rules.h"

namespace tern::ops::ref {
namespace {

// What stands beyond the count of an output: finite, and visible where something reads it.
constexpr double kTail = 12345.0;

// Calls visit(logical index, memory index).
template <typename Visit>
void for_each(const TensorDesc& desc, std::int64_t offset, Visit&& visit) {
  std::int64_t index[TERN_MAX_RANK] = {};
  const std::int64_t count = num_elements(desc);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = offset;
    for (int d = 0; d < desc.rank; ++d) at += index[d] * desc.strides[d];
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(at));
    for (int d = desc.rank - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
  }
}

std::size_t extent(const TensorDesc& desc) {
  if (num_elements(desc) == 0) return 0;
  std::int64_t last = 0;
  for (int d = 0; d < desc.rank; ++d) last += (desc.shape[d] - 1) * desc.strides[d];
  return static_cast<std::size_t>(last + 1);
}

}  // namespace

Value Executor::add(const Tensor& tensor) {
  Entry made;
  made.desc = tensor.desc;
  made.memory = std::make_shared<Memory>();
  const bool real = dtype_info(tensor.desc.dtype).floating;
  if (real) made.memory->real.resize(extent(tensor.desc));
  if (!real) made.memory->integer.resize(extent(tensor.desc));
  for_each(tensor.desc, 0, [&](std::size_t i, std::size_t at) {
    if (real) {
      made.memory->real[at] = tensor.real.at(i);
    } else {
      made.memory->integer[at] = tensor.integer.at(i);
    }
  });
  entries_.push_back(std::move(made));
  return {static_cast<std::int32_t>(entries_.size()) - 1};
}

Value Executor::add(const TensorDesc& desc, std::vector<double> elements) {
  Tensor tensor;
  tensor.desc = desc;
  tensor.real = std::move(elements);
  return add(tensor);
}

Value Executor::add_integers(const TensorDesc& desc, std::vector<std::int64_t> elements) {
  Tensor tensor;
  tensor.desc = desc;
  tensor.integer = std::move(elements);
  return add(tensor);
}

TensorDesc Executor::cut(TensorDesc desc) const {
  if (desc.dynamic_dim >= 0) {
    std::int64_t& size = desc.shape[desc.dynamic_dim];
    size = std::clamp<std::int64_t>(counts_[desc.count_slot], 0, size);
    desc.dynamic_dim = -1;
  }
  return desc;
}

Tensor Executor::read(Value value) const {
  const Entry& from = entry(value);
  Tensor out;
  out.desc = cut(from.desc);
  const auto count = static_cast<std::size_t>(num_elements(out.desc));
  const bool real = dtype_info(out.desc.dtype).floating;
  if (real) out.real.resize(count);
  if (!real) out.integer.resize(count);
  for_each(out.desc, from.offset, [&](std::size_t i, std::size_t at) {
    if (real) {
      out.real[i] = from.memory->real.at(at);
    } else {
      out.integer[i] = from.memory->integer.at(at);
    }
  });
  return out;
}

Value Executor::store(const TensorDesc& desc, const Tensor& tensor) {
  Tensor whole;
  whole.desc = desc;
  const auto count = static_cast<std::size_t>(num_elements(desc));
  if (dtype_info(desc.dtype).floating) {
    whole.real.assign(count, kTail);
  } else {
    whole.integer.assign(count, static_cast<std::int64_t>(kTail));
  }
  // The cut tensor's element i stands at its place within the whole shape.
  TensorDesc placed = make_desc(desc.dtype, shape_of(desc));
  std::copy(tensor.desc.shape, tensor.desc.shape + tensor.desc.rank, placed.shape);
  for_each(placed, 0, [&](std::size_t i, std::size_t at) {
    if (dtype_info(desc.dtype).floating) {
      whole.real[at] = rounding_ ? round_to(desc.dtype, tensor.real[i]) : tensor.real[i];
    } else {
      whole.integer[at] = tensor.integer[i];
    }
  });
  return add(whole);
}

std::vector<Value> Executor::emit(const OpCall& call) {
  const OpSpec& spec = op_spec(call.op);
  std::vector<Tensor> args(spec.args.size());
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool written = spec.args[i].role != Role::input;
    descs.push_back(written ? call.outputs.at(i)
                            : (call.inputs.at(i).present() ? desc(call.inputs[i]) : absent_desc()));
  }
  if (const std::string problem = check_call(call.op, descs, call.attrs, call.accumulate); !problem.empty()) {
    throw std::logic_error(problem);
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool fresh = spec.args[i].role == Role::output && (call.accumulate >> i & 1U) == 0;
    if (fresh) {
      args[i].desc = cut(descs[i]);
    } else if (is_present(descs[i])) {
      args[i] = read(call.inputs[i]);
    }
  }
  Call run{call.op, call.attrs, call.accumulate, args};
  op_rules(call.op).reference(run);
  std::vector<Value> results(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (spec.args[i].role != Role::input && is_present(descs[i])) results[i] = store(descs[i], args[i]);
  }
  last_call_ = call;
  last_results_ = results;
  return results;
}

const TensorDesc& Executor::desc(Value value) const { return entry(value).desc; }

Value Executor::view(Value value, const TensorDesc& desc, std::int64_t offset) {
  const Entry from = entry(value);
  const std::size_t have = std::max(from.memory->real.size(), from.memory->integer.size());
  if (offset < 0 || static_cast<std::size_t>(from.offset + offset) + extent(desc) > have) {
    throw std::logic_error(cat("a view of ", to_string(desc), " leaves the memory of ", to_string(from.desc)));
  }
  entries_.push_back({desc, from.offset + offset, from.memory});
  return {static_cast<std::int32_t>(entries_.size()) - 1};
}

}  // namespace tern::ops::ref
