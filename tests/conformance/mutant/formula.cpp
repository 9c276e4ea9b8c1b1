// Formulas as libraries get them wrong: they are right for numbers near 1 and small calls, which is where most tests
// look.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "mutant/attention_call.h"
#include "mutant/world.h"
#include "ops/rules.h"

namespace tern::mutant {
namespace {

using ops::ref::AttentionRow;
using ops::ref::Tensor;

constexpr double kOverflow = 88.7;  // of an exponential in fp32
constexpr std::int64_t kLarge = 1000;

// Rows of attention with a logit that has no exponential.
class WithoutMax : AttentionCall {
 public:
  using AttentionCall::AttentionCall;
  void run() {
    const std::int64_t width = arg(at_.v).size(arg(at_.v).desc.rank - 1);
    for_each_attention_row(inputs(), [&](const AttentionRow& row) {
      if (*std::max_element(row.score.begin(), row.score.end()) <= kOverflow) return;
      std::fill_n(arg(at_.out).real.begin() + row.at * width, width, std::nan(""));
    });
  }
};

float attribute(const tern_op_desc& desc, std::size_t index) {
  float value = 0.0F;
  std::memcpy(&value, static_cast<const std::byte*>(desc.attrs) + 4 * index, sizeof(value));
  return value;
}

struct NormCall {
  const Tensor& x;
  const Tensor& residual;  // may be absent
  const Tensor& bias;      // may be absent
  std::int64_t width;
  bool centred;  // rows are normalised without their mean
};

// y of a norm, whose rows are x's: as if eps were added to the root.
void move_eps(const NormCall& of, double eps, Tensor& y, Tensor& rstd) {
  const auto width = static_cast<std::size_t>(of.width);
  for (std::size_t begin = 0; begin < of.x.real.size(); begin += width) {
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      const double term = of.x.real[i] + (of.residual.present() ? of.residual.real[i] : 0.0);
      sum += term;
      squares += term * term;
    }
    const double mean = of.centred ? sum / static_cast<double>(width) : 0.0;
    const double variance = std::max(0.0, squares / static_cast<double>(width) - mean * mean);
    const double factor = std::sqrt(variance + eps) / (std::sqrt(variance) + eps);
    for (std::size_t i = begin; i < begin + width; ++i) {
      const double bias = of.bias.present() ? of.bias.real[i - begin] : 0.0;
      y.real[i] = (y.real[i] - bias) * factor + bias;
    }
    if (rstd.present()) rstd.real[begin / width] *= factor;
  }
}

// Whether the call takes a gradient through a weight that was packed for both uses.
bool reads_both_as_gradient(const Bound& bound) {
  std::vector<TensorDesc> descs;
  for (const tern_tensor& tensor : bound.args) descs.push_back(tensor.desc);
  const std::span<const std::byte> attrs(static_cast<const std::byte*>(bound.desc.attrs), bound.desc.attrs_size);
  for (std::size_t i = 0; i < descs.size(); ++i) {
    if (!is_present(descs[i]) || world->layouts_of_both.count(descs[i].layout) == 0) continue;
    const ops::CallDesc call{bound.desc.op, descs, attrs, bound.desc.accumulate};
    if ((ops::op_rules(bound.desc.op).uses(call, static_cast<int>(i)) & TERN_USE_INPUT_GRAD) != 0) return true;
  }
  return false;
}

}  // namespace

void Launch::put_eps_outside() {
  std::vector<Tensor> args = decoded();
  const std::vector<Tensor> right = args;
  const Tensor none;
  const double eps = attribute(bound_.desc, 0);
  if (bound_.desc.op == TERN_OP_RMS_NORM) {
    const Tensor& x = args[TERN_RMS_NORM_X];
    move_eps({x, args[TERN_RMS_NORM_RESIDUAL], none, x.size(1), false}, eps, args[TERN_RMS_NORM_Y],
             args[TERN_RMS_NORM_RSTD]);
  } else if (bound_.desc.op == TERN_OP_LAYER_NORM) {
    const Tensor& x = args[TERN_LAYER_NORM_X];
    move_eps({x, args[TERN_LAYER_NORM_RESIDUAL], args[TERN_LAYER_NORM_BIAS], x.size(1), true}, eps,
             args[TERN_LAYER_NORM_Y], args[TERN_LAYER_NORM_RSTD]);
  } else {
    const Tensor& x = args[TERN_QK_NORM_ROPE_X];
    move_eps({x, none, none, x.size(2), false}, eps, args[TERN_QK_NORM_ROPE_Y], args[TERN_QK_NORM_ROPE_RSTD]);
  }
  store_changed(right, args);
}

void Launch::spoil_formula(const std::vector<Bytes>& before) {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  switch (plan_.mistake) {
    case Mistake::split_unscaled:
    case Mistake::split_empty:
    case Mistake::split_tail:
    case Mistake::split_planned:
    case Mistake::split_stale:
    case Mistake::split_sinks:
    case Mistake::split_window:
    case Mistake::split_border:
      return spoil_split();
    case Mistake::eps_outside_root:
      return put_eps_outside();
    case Mistake::no_max: {
      std::vector<Tensor> args = decoded();
      const std::vector<Tensor> right = args;
      if (bound_.desc.op != TERN_OP_LINEAR_CROSS_ENTROPY) {
        WithoutMax(bound_.desc, args).run();
      } else {
        const std::vector<double>& largest = args[TERN_LINEAR_CROSS_ENTROPY_ROW_MAX].real;
        const bool any = std::any_of(largest.begin(), largest.end(), [](double x) { return x > kOverflow; });
        if (any) args[TERN_LINEAR_CROSS_ENTROPY_LOSS].real[0] = std::nan("");
      }
      return store_changed(right, args);
    }
    case Mistake::tanh_overflow: {
      std::vector<Tensor> args = decoded();
      const std::vector<Tensor> right = args;
      const bool forward = bound_.desc.op == TERN_OP_ACT_MUL;
      const int gate_at = forward ? int{TERN_ACT_MUL_GATE} : int{TERN_ACT_MUL_BACKWARD_GATE};
      const int out_at = forward ? int{TERN_ACT_MUL_Y} : int{TERN_ACT_MUL_BACKWARD_DUP};
      const Tensor& gate = args[static_cast<std::size_t>(gate_at)];
      std::int32_t kind = 0;
      std::memcpy(&kind, bound_.desc.attrs, sizeof(kind));
      for (std::size_t i = 0; kind == TERN_ACT_GELU_TANH && i < gate.real.size(); ++i) {
        const double x = gate.real[i];
        if (2.0 * 0.7978845608 * (x + 0.044715 * x * x * x) <= kOverflow || !std::isfinite(x)) continue;
        args[static_cast<std::size_t>(out_at)].real[i] = std::nan("");
      }
      return store_changed(right, args);
    }
    case Mistake::one_accumulates: {
      const bool adds = (bound_.desc.accumulate >> arg & 1U) != 0;
      if (adds || bound_.desc.accumulate == 0) return;
      return rewrite(before, [](const Element&, double found, double held) { return found + held; });
    }
    case Mistake::batch_transpose: {
      std::int32_t flags[2] = {};
      std::memcpy(flags, bound_.desc.attrs, sizeof(flags));
      if (bound_.args[TERN_MATMUL_OUT].desc.rank != 3 || (flags[0] == 0 && flags[1] == 0)) return;
      return rewrite(before,
                     [](const Element& at, double found, double) { return at.index[0] == 0 ? found : 0.9 * found; });
    }
    case Mistake::bias_before_alpha: {
      if (!present(TERN_MATMUL_BIAS)) return;
      const std::vector<Tensor> args = decoded();
      const double more = attribute(bound_.desc, 3) - 1.0;
      const auto last = static_cast<std::size_t>(bound_.args[arg].desc.rank - 1);
      return rewrite(before, [&](const Element& at, double found, double) {
        return found + more * args[TERN_MATMUL_BIAS].real[static_cast<std::size_t>(at.index[last])];
      });
    }
    case Mistake::large_accumulate: {
      if ((bound_.desc.accumulate >> arg & 1U) == 0) return;
      const tern_tensor_desc& a = bound_.args[0].desc;  // of either product
      if (std::max(a.shape[0], a.shape[1]) < kLarge) return;
      return rewrite(before, [](const Element&, double found, double held) { return found - held; });
    }
    case Mistake::rows_past_65535:
      if (bound_.args[arg].desc.shape[0] <= 65535) return;
      return rewrite(before,
                     [](const Element& at, double found, double held) { return at.index[0] < 65535 ? found : held; });
    case Mistake::forward_pack:
      if (!reads_both_as_gradient(bound_)) return;
      return rewrite(before, [](const Element&, double found, double) { return 0.9 * found; });
    default:
      return;
  }
}

// AdamW without its eps, which shows where gradients are very small.
tern_status Launch::lose_eps(const Lengths& lengths) {
  constexpr std::int64_t kEps = 5;  // among the hyper parameters
  const Element at = element_at(bound_.args[TERN_ADAMW_HYPER], lengths.counts.data(), kEps);
  const Bytes right = load(memory_, at);
  tern_status status = TERN_OK;
  if (runs_differently(
          lengths, lengths, [&] { store(memory_, at, from_real(at, 0.0)); }, [&] { store(memory_, at, right); },
          status)) {
    ++made_;
  }
  return status;
}

// The whole of an fp32 input with 10 bits behind the leading one, as NVIDIA's TF32 has it, or 7 as in bf16.
tern_status Launch::round_input(const Lengths& lengths) {
  const auto arg = static_cast<std::size_t>(plan_.arg);
  const tern_tensor& tensor = bound_.args[arg];
  if (shares() || tensor.desc.dtype != TERN_F32 || is_quantised(tensor.desc) || tensor.desc.layout != 0) {
    return run_(bound_.inner, lengths);
  }
  const Bytes right = whole(arg);
  Bytes wrong = right;
  const std::uint32_t dropped = plan_.mistake == Mistake::tf32 ? 13 : 16;
  for (std::size_t at = 0; at + 4 <= wrong.size(); at += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, wrong.data() + at, 4);
    if ((bits & 0x7f800000U) == 0x7f800000U) continue;
    bits = (bits + (1U << (dropped - 1)) - 1 + (bits >> dropped & 1U)) >> dropped << dropped;
    std::memcpy(wrong.data() + at, &bits, 4);
  }
  if (wrong == right) return run_(bound_.inner, lengths);
  ++made_;
  memory_.write(tensor.planes[0], wrong);
  const tern_status status = run_(bound_.inner, lengths);
  memory_.finish();
  memory_.write(tensor.planes[0], right);
  return status;
}

}  // namespace tern::mutant
