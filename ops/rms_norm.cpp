#include "ops/rms_norm.h"

#include <stdexcept>

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_rms_norm_attrs>(bytes);
  return first_problem(require(args[TERN_RMS_NORM_X].shape[1] >= 1, "x: expected a width of at least 1"),
                       require(attrs.eps >= 0.0F, "eps: expected no negative number"),
                       require(is_present(args[TERN_RMS_NORM_RESIDUAL]) == is_present(args[TERN_RMS_NORM_SUM]),
                               "sum: expected exactly where residual is"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const bool residual = grads.input(TERN_RMS_NORM_RESIDUAL).present();
  const Value dy = grads.of_output(TERN_RMS_NORM_Y);
  Value dsum = residual ? grads.of_output(TERN_RMS_NORM_SUM) : Value{};
  const bool want_x = grads.wanted(TERN_RMS_NORM_X) || (residual && grads.wanted(TERN_RMS_NORM_RESIDUAL));
  Value dx = dsum;
  if (dy.present()) {
    if (!grads.result(TERN_RMS_NORM_RSTD).present())
      throw std::logic_error("rms_norm: rstd was not kept for the backward");
    if (!residual && want_x) dsum = grads.absorb(TERN_RMS_NORM_X);
    const bool want_weight = grads.wanted(TERN_RMS_NORM_WEIGHT);
    const RmsNormGrads out = rms_norm_backward(
        grads.emitter(), dy, residual ? grads.result(TERN_RMS_NORM_SUM) : grads.input(TERN_RMS_NORM_X),
        grads.input(TERN_RMS_NORM_WEIGHT), grads.result(TERN_RMS_NORM_RSTD),
        {.weight_offset = unpack_attrs<tern_rms_norm_attrs>(call.call.attrs).weight_offset,
         .dsum = dsum,
         .dweight = want_weight,
         .dweight_into = want_weight ? grads.absorb(TERN_RMS_NORM_WEIGHT) : Value{},
         .out = grads.desc(TERN_RMS_NORM_X).dtype,
         .needs = grads.needs()});
    dx = out.dx;
    grads.give(TERN_RMS_NORM_WEIGHT, out.dweight);
  }
  if (grads.wanted(TERN_RMS_NORM_X)) grads.give(TERN_RMS_NORM_X, dx);
  if (residual && grads.wanted(TERN_RMS_NORM_RESIDUAL)) grads.give(TERN_RMS_NORM_RESIDUAL, dx);
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value residual = arg(call, TERN_RMS_NORM_RESIDUAL);
  if (!residual.present()) return {};
  const Value sum = axpby(emitter, arg(call, TERN_RMS_NORM_X), residual,
                          {.out = call.outputs[TERN_RMS_NORM_SUM].dtype, .needs = call.needs});
  OpCall plain = call;
  plain.inputs[TERN_RMS_NORM_X] = sum;
  plain.inputs[TERN_RMS_NORM_RESIDUAL] = {};
  plain.outputs[TERN_RMS_NORM_SUM] = absent_desc();
  std::vector<Value> results = emitter.emit(plain);
  results[TERN_RMS_NORM_SUM] = sum;
  return results;
}

std::string check_backward(Args args, AttrBytes) {
  return require(args[TERN_RMS_NORM_BACKWARD_X].shape[1] >= 1, "x: expected a width of at least 1");
}

std::vector<Value> decompose_backward(Emitter& emitter, const OpCall& call) {
  const Value dsum = arg(call, TERN_RMS_NORM_BACKWARD_DSUM);
  if (!dsum.present()) return decompose_accumulate(emitter, call);
  const TensorDesc& dx = call.outputs[TERN_RMS_NORM_BACKWARD_DX];
  OpCall plain = call;
  plain.inputs[TERN_RMS_NORM_BACKWARD_DSUM] = {};
  plain.outputs[TERN_RMS_NORM_BACKWARD_DX] = like(dx, TERN_F32);
  std::vector<Value> results = emitter.emit(plain);
  results[TERN_RMS_NORM_BACKWARD_DX] =
      axpby(emitter, results[TERN_RMS_NORM_BACKWARD_DX], dsum, {.out = dx.dtype, .needs = call.needs});
  return results;
}

}  // namespace

RmsNormOut rms_norm(Emitter& emitter, Value x, Value weight, const RmsNormOptions& options) {
  const TensorDesc from = emitter.desc(x);
  CallBuilder builder(TERN_OP_RMS_NORM, options.needs);
  builder.attrs(tern_rms_norm_attrs{options.eps, options.weight_offset})
      .in(TERN_RMS_NORM_X, x)
      .in(TERN_RMS_NORM_RESIDUAL, options.residual)
      .in(TERN_RMS_NORM_WEIGHT, weight)
      .out(TERN_RMS_NORM_Y, like(from, options.out));
  if (options.residual.present()) builder.out(TERN_RMS_NORM_SUM, like(from, options.sum));
  if (options.keep_rstd) builder.out(TERN_RMS_NORM_RSTD, rows_like(make_desc(TERN_F32, {from.shape[0]}), from));
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_RMS_NORM_Y], options.residual.present() ? out[TERN_RMS_NORM_SUM] : x, out[TERN_RMS_NORM_RSTD]};
}

RmsNormGrads rms_norm_backward(Emitter& emitter, Value dy, Value x, Value weight, Value rstd,
                               const RmsNormBackwardOptions& options) {
  const TensorDesc from = emitter.desc(x);
  CallBuilder builder(TERN_OP_RMS_NORM_BACKWARD, options.needs);
  builder.attrs(tern_rms_norm_backward_attrs{options.weight_offset})
      .in(TERN_RMS_NORM_BACKWARD_DY, dy)
      .in(TERN_RMS_NORM_BACKWARD_X, x)
      .in(TERN_RMS_NORM_BACKWARD_WEIGHT, weight)
      .in(TERN_RMS_NORM_BACKWARD_RSTD, rstd)
      .in(TERN_RMS_NORM_BACKWARD_DSUM, options.dsum)
      .out(TERN_RMS_NORM_BACKWARD_DX, like(from, options.out));
  if (options.dweight) {
    builder.out(emitter, TERN_RMS_NORM_BACKWARD_DWEIGHT, make_desc(TERN_F32, {from.shape[1]}), options.dweight_into);
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_RMS_NORM_BACKWARD_DX], out[TERN_RMS_NORM_BACKWARD_DWEIGHT]};
}

const OpRules rms_norm_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::rms_norm,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};
const OpRules rms_norm_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_backward,
    .reference = ref::rms_norm_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
