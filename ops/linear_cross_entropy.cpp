#include "ops/linear_cross_entropy.h"

#include <array>
#include <stdexcept>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/dequantize.h"
#include "ops/fill.h"
#include "ops/merge_lse.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/scale.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_linear_cross_entropy_attrs>(bytes);
  return first_problem(require_compute(attrs.compute),
                       require(attrs.softcap >= 0.0F, "softcap: expected no negative number"),
                       require(args[TERN_LINEAR_CROSS_ENTROPY_W].shape[0] >= 1, "w: expected a vocab of at least 1"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  for (int arg :
       {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET}) {
    if (grads.of_output(arg).present()) throw std::logic_error("linear_cross_entropy: row statistics have no gradient");
  }
  const bool unit = grads.of_output_is_one(TERN_LINEAR_CROSS_ENTROPY_LOSS);
  const Value dloss = unit ? kUnitGradient : grads.of_output(TERN_LINEAR_CROSS_ENTROPY_LOSS);
  auto give = [&](int input, int output) {
    if (!grads.wanted(input)) return;
    const Value made = grads.result(output);
    if (!made.present()) throw std::logic_error("linear_cross_entropy: the forward was not asked for this gradient");
    if (accumulates(call.call, output)) {
      if (!unit) throw std::logic_error("linear_cross_entropy: an accumulated dw cannot be scaled");
      static_cast<void>(grads.absorb(input));  // the forward has added it already
      grads.give(input, made);
    } else if (unit) {
      grads.give(input, made);
    } else {
      grads.give(input,
                 scale(grads.emitter(), made, dloss,
                       {.out = grads.emitter().desc(made).dtype, .into = grads.absorb(input), .needs = grads.needs()}));
    }
  };
  give(TERN_LINEAR_CROSS_ENTROPY_H, TERN_LINEAR_CROSS_ENTROPY_DH);
  give(TERN_LINEAR_CROSS_ENTROPY_W, TERN_LINEAR_CROSS_ENTROPY_DW);
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value w = arg(call, TERN_LINEAR_CROSS_ENTROPY_W);
  const TensorDesc& desc = emitter.desc(w);
  if (!is_quantised(desc) || desc.layout != 0) return decompose_accumulate(emitter, call);
  const auto attrs = unpack_attrs<tern_linear_cross_entropy_attrs>(call.attrs);
  OpCall plain = call;
  plain.inputs[TERN_LINEAR_CROSS_ENTROPY_W] = dequantize(emitter, w, attrs.compute, call.needs);
  return emitter.emit(plain);
}

// The logits, and a product for each gradient.
double flops(const CallDesc& call, HostArrays) {
  const int products =
      1 + (call.has(TERN_LINEAR_CROSS_ENTROPY_DH) ? 1 : 0) + (call.has(TERN_LINEAR_CROSS_ENTROPY_DW) ? 1 : 0);
  return 2.0 * products * static_cast<double>(num_elements(call[TERN_LINEAR_CROSS_ENTROPY_H])) *
         static_cast<double>(call[TERN_LINEAR_CROSS_ENTROPY_W].shape[0]);
}

// The gradient of h reads the weight the other way.
std::uint32_t uses(const CallDesc& call, int arg) {
  if (arg != TERN_LINEAR_CROSS_ENTROPY_W) return 0;
  return product_use(true) | (call.has(TERN_LINEAR_CROSS_ENTROPY_DH) ? product_use(false) : 0);
}

// -1: none in this shard.
Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_LINEAR_CROSS_ENTROPY_TARGETS, -1, call[TERN_LINEAR_CROSS_ENTROPY_W].shape[0] - 1}}};
}

// The statistics of each part's own rows of the vocabulary, from a call that gives nothing else; together they say what
// all of it sums up to.
void merge_parts(Emitter& emitter, std::span<OpCall> parts) {
  if (parts[0].inputs[TERN_LINEAR_CROSS_ENTROPY_LSE].present()) return;
  const TensorDesc hidden = emitter.desc(parts[0].inputs[TERN_LINEAR_CROSS_ENTROPY_H]);
  const std::int64_t rows = hidden.shape[0];
  const auto num_parts = static_cast<std::int64_t>(parts.size());
  const TensorDesc row = rows_like(make_desc(TERN_F32, {rows}), hidden);
  // Each begins at a place of any device's alignment.
  constexpr std::int64_t kUnit = 64;
  const std::int64_t stride = (rows + kUnit - 1) / kUnit * kUnit;
  const TensorDesc memory = make_desc(TERN_F32, {num_parts, stride});
  TensorDesc all = make_desc(TERN_F32, {num_parts, rows});
  all.strides[0] = stride;
  if (hidden.dynamic_dim == 0) all = with_dynamic(all, 1, hidden.count_slot);
  constexpr std::array kStatistics = {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM};
  std::array<Value, 2> written = {fill(emitter, memory, 0.0F, {}), fill(emitter, memory, 0.0F, {})};  // the row before
  for (std::int64_t p = 0; p < num_parts; ++p) {
    OpCall call = parts[static_cast<std::size_t>(p)];
    call.accumulate = 0;
    for (std::size_t arg = TERN_LINEAR_CROSS_ENTROPY_ROW_MAX; arg < call.outputs.size(); ++arg) {
      call.inputs[arg] = {};
      call.outputs[arg] = absent_desc();
    }
    call.inputs[TERN_LINEAR_CROSS_ENTROPY_LOSS] = {};
    call.outputs[TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET] = row;
    for (std::size_t s = 0; s < written.size(); ++s) {
      call.inputs[kStatistics[s]] = emitter.view(written[s], row, p == 0 ? 0 : stride);
      call.outputs[kStatistics[s]] = row;
    }
    const std::vector<Value> results = emitter.emit(call);
    for (std::size_t s = 0; s < written.size(); ++s) written[s] = results[kStatistics[s]];
  }
  for (Value& last : written) last = emitter.view(last, all, -(num_parts - 1) * stride);
  const Value lse = merge_lse(emitter, written[0], written[1], parts[0].needs);
  for (OpCall& part : parts) part.inputs[TERN_LINEAR_CROSS_ENTROPY_LSE] = lse;
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const bool is_vocab = (arg == TERN_LINEAR_CROSS_ENTROPY_W || arg == TERN_LINEAR_CROSS_ENTROPY_DW) && dim == 0;
  // What is asked of the whole vocabulary's statistics would have to be merged too.
  if (!is_vocab || call.has(TERN_LINEAR_CROSS_ENTROPY_ROW_MAX)) return std::nullopt;
  auto cut = by_name(call, arg, dim);
  cut->sums = {TERN_LINEAR_CROSS_ENTROPY_LOSS, TERN_LINEAR_CROSS_ENTROPY_DH};
  cut->indices = {TERN_LINEAR_CROSS_ENTROPY_TARGETS};
  cut->complete = merge_parts;
  return cut;
}

}  // namespace

LinearCrossEntropyOut linear_cross_entropy(Emitter& emitter, Value h, Value w, Value targets, Value weights,
                                           const LinearCrossEntropyOptions& options) {
  const TensorDesc hidden = emitter.desc(h);
  const TensorDesc rows = rows_like(make_desc(TERN_F32, {hidden.shape[0]}), hidden);
  CallBuilder builder(TERN_OP_LINEAR_CROSS_ENTROPY, options.needs);
  builder.attrs(tern_linear_cross_entropy_attrs{options.compute, options.softcap})
      .in(TERN_LINEAR_CROSS_ENTROPY_H, h)
      .in(TERN_LINEAR_CROSS_ENTROPY_W, w)
      .in(TERN_LINEAR_CROSS_ENTROPY_TARGETS, targets)
      .in(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS, weights)
      .in(TERN_LINEAR_CROSS_ENTROPY_LSE, options.lse)
      .out(emitter, TERN_LINEAR_CROSS_ENTROPY_LOSS, make_desc(TERN_F32, {1}), options.loss_into);
  if (options.row_statistics) {
    for (int arg :
         {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET}) {
      builder.out(arg, rows);
    }
  }
  if (options.dh) builder.out(TERN_LINEAR_CROSS_ENTROPY_DH, like(hidden, options.dh_dtype));
  if (options.dw) {
    builder.out(emitter, TERN_LINEAR_CROSS_ENTROPY_DW, make_desc(TERN_F32, shape_of(emitter.desc(w))), options.dw_into);
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_LINEAR_CROSS_ENTROPY_LOSS],    out[TERN_LINEAR_CROSS_ENTROPY_ROW_MAX],
          out[TERN_LINEAR_CROSS_ENTROPY_ROW_SUM], out[TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET],
          out[TERN_LINEAR_CROSS_ENTROPY_DH],      out[TERN_LINEAR_CROSS_ENTROPY_DW]};
}

const OpRules linear_cross_entropy_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::linear_cross_entropy,
    .work = {flops, each_argument_once},
    .uses = uses,
    .row_dim = named_rows,
    .split = split,
    .indices = indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
