#include "ops/linear_cross_entropy.h"

#include <stdexcept>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/dequantize.h"
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
    .indices = indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
