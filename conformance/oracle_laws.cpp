#include "conformance/oracle_laws.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/case_builder.h"
#include "conformance/compare.h"
#include "ops/ref/executor.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

using ops::OpCall;
using ops::Value;
using ops::ref::Executor;
using ops::ref::Tensor;

// The case as a call on an executor; inputs at full capacity, in fp64 where `exact`.
struct Prepared {
  Executor executor;
  OpCall call;
};

bool real_input(const Case& c, std::size_t i) {
  return is_present(c.args[i].desc) && !c.written(i) && dtype_info(c.args[i].desc.dtype).floating;
}

std::array<std::int64_t, TERN_MAX_COUNTS> full_counts(const Case& c) {
  std::array<std::int64_t, TERN_MAX_COUNTS> counts = c.counts;
  for (const Argument& arg : c.args) {
    if (arg.desc.dynamic_dim >= 0) counts[arg.desc.count_slot] = arg.desc.shape[arg.desc.dynamic_dim];
  }
  return counts;
}

Prepared prepare(const Case& c, bool rounding) {
  Prepared out{Executor(rounding), {}};
  out.call.op = c.op;
  out.call.attrs = c.attrs;
  out.call.accumulate = c.accumulate;
  out.call.inputs.resize(c.args.size());
  out.call.outputs.assign(c.args.size(), absent_desc());
  for (int slot = 0; slot < TERN_MAX_COUNTS; ++slot)
    out.executor.set_count(slot, c.counts[static_cast<std::size_t>(slot)]);
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const Argument& arg = c.args[i];
    if (!is_present(arg.desc)) continue;
    if (c.written(i)) out.call.outputs[i] = arg.desc;
    if (c.read(i)) {
      Tensor whole = decode(arg.desc, arg.planes, full_counts(c));
      whole.desc = arg.desc;
      out.call.inputs[i] = out.executor.add(whole);
    }
  }
  return out;
}

double weighted_sum(const Executor& executor, const std::vector<Value>& results,
                    const std::vector<std::vector<double>>& weights) {
  double sum = 0.0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (weights[i].empty()) continue;
    const Tensor out = executor.read(results[i]);
    for (std::size_t j = 0; j < out.real.size(); ++j) sum += weights[i][j] * out.real[j];
  }
  return sum;
}

// Outputs that a gradient flows into: those of the table that are no by-product.
bool carries_gradient(std::uint32_t op, std::size_t arg) {
  switch (op) {
    case TERN_OP_RMS_NORM:
      return arg != TERN_RMS_NORM_RSTD;
    case TERN_OP_LAYER_NORM:
      return arg != TERN_LAYER_NORM_MEAN && arg != TERN_LAYER_NORM_RSTD;
    case TERN_OP_QK_NORM_ROPE:
      return arg == TERN_QK_NORM_ROPE_Y;
    case TERN_OP_ATTENTION:
      return arg == TERN_ATTENTION_OUT;
    case TERN_OP_LINEAR_CROSS_ENTROPY:
      return arg == TERN_LINEAR_CROSS_ENTROPY_LOSS;
    case TERN_OP_MOE_ROUTE:
      return arg == TERN_MOE_ROUTE_WEIGHTS;
    case TERN_OP_MOE_PERMUTE:
      return arg == TERN_MOE_PERMUTE_Y;
    default:
      return true;
  }
}

// Of two equal logits the better one changes with the smallest change.
bool has_equal_logits(const Case& c) {
  const Argument& logits = c.args[TERN_MOE_ROUTE_LOGITS];
  const std::vector<double> values = decode(logits.desc, logits.planes, full_counts(c)).real;
  const auto experts = static_cast<std::size_t>(std::max<std::int64_t>(logits.desc.shape[1], 1));
  for (std::size_t row = 0; row < values.size(); row += experts) {
    std::vector<double> sorted(values.begin() + static_cast<std::ptrdiff_t>(row),
                               values.begin() + static_cast<std::ptrdiff_t>(row + experts));
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return true;
  }
  return false;
}

// Products rounded to a narrow dtype are steps, not slopes.
bool is_smooth(const Case& c) {
  if (c.op == TERN_OP_MOE_ROUTE && has_equal_logits(c)) return false;
  const auto& attrs = c.spec().attrs;
  for (std::size_t i = 0; i < attrs.size(); ++i) {
    std::int32_t value = TERN_F32;
    std::memcpy(&value, c.attrs.data() + 4 * i, sizeof value);
    if (attrs[i].name == "compute" && value != TERN_F32) return false;
  }
  for (const Argument& arg : c.args) {
    // integers have no gradient (the cases of casts)
    if (c.op == TERN_OP_CAST_COPY && !dtype_info(arg.desc.dtype).floating) return false;
  }
  return true;
}

// What the forward must have kept for its backward; one that goes on from a state has none. A shard's gradients are
// parts of the whole vocabulary's, not the derivatives of its own part of the loss.
bool keeps_enough(const Case& c) {
  switch (c.op) {
    case TERN_OP_RMS_NORM:
      return is_present(c.args[TERN_RMS_NORM_RSTD].desc);
    case TERN_OP_LAYER_NORM:
      return is_present(c.args[TERN_LAYER_NORM_RSTD].desc);
    case TERN_OP_QK_NORM_ROPE:
      return is_present(c.args[TERN_QK_NORM_ROPE_RSTD].desc);
    case TERN_OP_ATTENTION:
      return is_present(c.args[TERN_ATTENTION_LSE].desc);
    case TERN_OP_CAUSAL_CONV1D:
      return !is_present(c.args[TERN_CAUSAL_CONV1D_STATE].desc);
    case TERN_OP_GATED_DELTA_RULE:
      return !is_present(c.args[TERN_GATED_DELTA_RULE_STATE].desc);
    case TERN_OP_SELECTIVE_SCAN:
      return !is_present(c.args[TERN_SELECTIVE_SCAN_STATE].desc);
    case TERN_OP_LINEAR_CROSS_ENTROPY:
      return is_present(c.args[TERN_LINEAR_CROSS_ENTROPY_DW].desc) &&
             !is_present(c.args[TERN_LINEAR_CROSS_ENTROPY_LSE].desc);
    default:
      return true;
  }
}

bool has_gradient(const Case& c, std::size_t i) {
  if (!real_input(c, i) || is_quantised(c.args[i].desc)) return false;
  if (c.op == TERN_OP_ROPE || c.op == TERN_OP_QK_NORM_ROPE) {
    return c.spec().args[i].name != "cos" && c.spec().args[i].name != "sin";
  }
  if (c.op == TERN_OP_LINEAR_CROSS_ENTROPY) return i == TERN_LINEAR_CROSS_ENTROPY_H || i == TERN_LINEAR_CROSS_ENTROPY_W;
  if (c.op == TERN_OP_MATMUL_Q) return i != TERN_MATMUL_Q_W;
  if (c.op == TERN_OP_MOE_ROUTE) return i == TERN_MOE_ROUTE_LOGITS;
  for (int d = 0; d < c.args[i].desc.rank; ++d) {
    if (c.args[i].desc.shape[d] > 1 && c.args[i].desc.strides[d] == 0) return false;
  }
  return true;
}

class GradientCheck {
 public:
  explicit GradientCheck(const Case& c) : case_(c), base_(prepare(c, false)), random_(17) {}

  std::string run(int& checked) {
    const std::vector<Value> results = base_.executor.emit(base_.call);
    weigh(results);
    std::vector<bool> wanted(case_.args.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = has_gradient(case_, i);
    const std::vector<Value> grads = differentiate(results, wanted, {});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const std::string_view name = case_.spec().args[i].name;
      if (!grads[i].present()) return cat(name, ": the rule gives no gradient");
      const Tensor grad = base_.executor.read(grads[i]);
      if (std::string problem = compare_with_differences(i, grad, checked); !problem.empty())
        return cat(name, ": ", problem);
      if (std::string problem = check_sum(i, results, wanted, grad); !problem.empty()) return cat(name, ": ", problem);
    }
    return {};
  }

 private:
  // Random upstream gradients, exact in fp32.
  void weigh(const std::vector<Value>& results) {
    weights_.resize(results.size());
    out_grads_.resize(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].present() || !carries_gradient(case_.op, i)) continue;
      const TensorDesc desc = base_.executor.desc(results[i]);
      std::vector<double> upstream(static_cast<std::size_t>(num_elements(desc)));
      for (double& x : upstream) x = static_cast<float>(random_.term());
      out_grads_[i] = base_.executor.add(contiguous_f32(desc), upstream);
      weights_[i] = base_.executor.read(out_grads_[i]).real;
    }
  }

  static TensorDesc contiguous_f32(const TensorDesc& desc) {
    TensorDesc out = make_desc(TERN_F32, shape_of(desc));
    out.dynamic_dim = desc.dynamic_dim;
    out.count_slot = desc.count_slot;
    return out;
  }

  std::vector<Value> differentiate(const std::vector<Value>& results, const std::vector<bool>& wanted,
                                   std::vector<Value> into) {
    into.resize(wanted.size());
    std::vector<bool> absorbed(wanted.size());
    ops::BackwardCall call{base_.executor, base_.call, results, out_grads_, wanted, into, absorbed};
    std::vector<Value> grads = ops::op_rules(case_.op).backward(call);
    absorbed_ = absorbed;
    return grads;
  }

  // The weighted sum of the outputs with one valid element of an input moved.
  double loss_with(std::size_t arg, std::size_t element, double change) {
    OpCall call = base_.call;
    Tensor moved = base_.executor.read(call.inputs[arg]);
    moved.real[element] += change;
    const TensorDesc whole = contiguous_f32(base_.executor.desc(call.inputs[arg]));
    std::vector<double> all(static_cast<std::size_t>(num_elements(whole)));
    std::int64_t index[TERN_MAX_RANK] = {};
    for (double x : moved.real) {
      std::int64_t to = 0;
      for (int d = 0; d < whole.rank; ++d) to += index[d] * whole.strides[d];
      all[static_cast<std::size_t>(to)] = x;
      for (int d = whole.rank - 1; d >= 0 && ++index[d] == moved.desc.shape[d]; --d) index[d] = 0;
    }
    call.inputs[arg] = base_.executor.add(whole, all);
    return weighted_sum(base_.executor, base_.executor.emit(call), weights_);
  }

  std::string compare_with_differences(std::size_t arg, const Tensor& grad, int& checked) {
    const auto count = static_cast<std::int64_t>(grad.real.size());
    double size = 1e-3;
    for (double x : grad.real) size = std::max(size, std::fabs(x));
    for (int sample = 0; sample < 5 && count > 0; ++sample) {
      const auto element = static_cast<std::size_t>(random_.below(count));
      // Small elements stand in small rows of norms, which bend sooner.
      const bool is_small = std::fabs(base_.executor.read(base_.call.inputs[arg]).real[element]) < 0x1p-6;
      const double step = is_small ? 0x1p-14 : 0x1p-8;
      // fourth order: the two-point difference at h and 2h
      const double near = (loss_with(arg, element, step) - loss_with(arg, element, -step)) / (2.0 * step);
      const double far = (loss_with(arg, element, 2.0 * step) - loss_with(arg, element, -2.0 * step)) / (4.0 * step);
      const double difference = (4.0 * near - far) / 3.0;
      ++checked;
      // Inputs of products are rounded to fp32: 2^-24 of a term against a step of 2^-8; the rest are terms of h^4.
      const double allowed = 2e-4 * size + 1e-7;
      if (!(std::fabs(difference - grad.real[element]) <= allowed)) {
        return cat("element ", element, ": the rule says ", grad.real[element], ", differences say ", difference);
      }
    }
    return {};
  }

  // With a gradient already there: the sum of both, whoever adds.
  std::string check_sum(std::size_t arg, const std::vector<Value>& results, const std::vector<bool>& wanted,
                        const Tensor& alone) {
    const TensorDesc desc = contiguous_f32(base_.executor.desc(base_.call.inputs[arg]));
    std::vector<double> held(static_cast<std::size_t>(num_elements(desc)));
    for (double& x : held) x = random_.term();
    std::vector<Value> into(case_.args.size());
    into[arg] = base_.executor.add(desc, held);
    const Tensor before = base_.executor.read(into[arg]);
    const std::vector<Value> grads = differentiate(results, wanted, into);
    if (!absorbed_[arg]) return {};
    const Tensor sum = base_.executor.read(grads[arg]);
    for (std::size_t i = 0; i < alone.real.size(); ++i) {
      const double expected = alone.real[i] + before.real[i];
      if (!(std::fabs(sum.real[i] - expected) <= 1e-9 * (1.0 + std::fabs(expected)))) {
        return cat("added to ", before.real[i], ": expected ", expected, ", found ", sum.real[i]);
      }
    }
    return {};
  }

  const Case& case_;
  Prepared base_;
  Random random_;
  std::vector<std::vector<double>> weights_;
  std::vector<Value> out_grads_;
  std::vector<bool> absorbed_;
};

}  // namespace

std::string check_gradient(const Case& c, int& checked) {
  if (ops::op_rules(c.op).backward == nullptr || c.accumulate != 0 || c.special || !keeps_enough(c) || !is_smooth(c)) {
    return {};
  }
  Case plain = c;
  plain.alias.assign(c.args.size(), -1);
  return GradientCheck(plain).run(checked);
}

std::string check_decomposition(const Case& c, bool& decomposed) {
  decomposed = false;
  const auto decompose = ops::op_rules(c.op).decompose;
  if (decompose == nullptr) return {};
  Prepared prepared = prepare(c, true);
  const std::vector<Value> results = decompose(prepared.executor, prepared.call);
  if (results.empty()) return {};
  decomposed = true;
  const std::vector<Tensor> expected = run_oracle(c);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!c.written(i) || !expected[i].present()) continue;
    if (!results[i].present()) return cat(c.spec().args[i].name, ": the decomposition gives nothing");
    const Comparison comparison = compare(c, static_cast<int>(i), expected[i], prepared.executor.read(results[i]));
    if (comparison.worst > 1.0) return cat(c.spec().args[i].name, ": ", comparison.problem);
  }
  return {};
}

}  // namespace tern::conformance
