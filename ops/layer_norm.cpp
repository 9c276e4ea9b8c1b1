#include "ops/layer_norm.h"

#include <stdexcept>

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/rms_norm.h"
#include "ops/row_sum.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_layer_norm_attrs>(bytes);
  return first_problem(require(args[TERN_LAYER_NORM_X].shape[1] >= 1, "x: expected a width of at least 1"),
                       require(attrs.eps >= 0.0F, "eps: expected no negative number"),
                       require(is_present(args[TERN_LAYER_NORM_RESIDUAL]) == is_present(args[TERN_LAYER_NORM_SUM]),
                               "sum: expected exactly where residual is"),
                       require(is_present(args[TERN_LAYER_NORM_MEAN]) == is_present(args[TERN_LAYER_NORM_RSTD]),
                               "mean: expected exactly where rstd is"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const bool residual = grads.input(TERN_LAYER_NORM_RESIDUAL).present();
  const Value dy = grads.of_output(TERN_LAYER_NORM_Y);
  Value dsum = residual ? grads.of_output(TERN_LAYER_NORM_SUM) : Value{};
  const bool want_x = grads.wanted(TERN_LAYER_NORM_X) || (residual && grads.wanted(TERN_LAYER_NORM_RESIDUAL));
  Value dx = dsum;
  if (dy.present()) {
    if (!grads.result(TERN_LAYER_NORM_RSTD).present())
      throw std::logic_error("layer_norm: mean and rstd were not kept for the backward");
    if (!residual && want_x) dsum = grads.absorb(TERN_LAYER_NORM_X);
    const bool want_weight = grads.wanted(TERN_LAYER_NORM_WEIGHT);
    const bool want_bias = grads.input(TERN_LAYER_NORM_BIAS).present() && grads.wanted(TERN_LAYER_NORM_BIAS);
    const LayerNormGrads out = layer_norm_backward(
        grads.emitter(), dy, residual ? grads.result(TERN_LAYER_NORM_SUM) : grads.input(TERN_LAYER_NORM_X),
        grads.input(TERN_LAYER_NORM_WEIGHT), {grads.result(TERN_LAYER_NORM_MEAN), grads.result(TERN_LAYER_NORM_RSTD)},
        {.dsum = dsum,
         .dweight = want_weight,
         .dbias = want_bias,
         .dweight_into = want_weight ? grads.absorb(TERN_LAYER_NORM_WEIGHT) : Value{},
         .dbias_into = want_bias ? grads.absorb(TERN_LAYER_NORM_BIAS) : Value{},
         .out = grads.desc(TERN_LAYER_NORM_X).dtype,
         .needs = grads.needs()});
    dx = out.dx;
    grads.give(TERN_LAYER_NORM_WEIGHT, out.dweight);
    grads.give(TERN_LAYER_NORM_BIAS, out.dbias);
  }
  if (grads.wanted(TERN_LAYER_NORM_X)) grads.give(TERN_LAYER_NORM_X, dx);
  if (residual && grads.wanted(TERN_LAYER_NORM_RESIDUAL)) grads.give(TERN_LAYER_NORM_RESIDUAL, dx);
  return grads.take();
}

Value row_mean(Emitter& emitter, Value x, std::uint32_t needs) {
  const auto width = static_cast<float>(emitter.desc(x).shape[1]);
  return axpby(emitter, row_sum(emitter, x, {.needs = needs}), {}, {.a = 1.0F / width, .needs = needs});
}

// x [rows, width] less a number for each row.
Value less_by_row(Emitter& emitter, Value x, Value number, tern_dtype out, std::uint32_t needs) {
  TensorDesc wide = like(emitter.desc(x), TERN_F32);
  wide.strides[0] = emitter.desc(number).strides[0];
  wide.strides[1] = 0;
  return axpby(emitter, x, emitter.view(number, wide, 0), {.b = -1.0F, .out = out, .needs = needs});
}

std::vector<Value> add_first(Emitter& emitter, const OpCall& call) {
  const Value sum = axpby(emitter, arg(call, TERN_LAYER_NORM_X), arg(call, TERN_LAYER_NORM_RESIDUAL),
                          {.out = call.outputs[TERN_LAYER_NORM_SUM].dtype, .needs = call.needs});
  OpCall plain = call;
  plain.inputs[TERN_LAYER_NORM_X] = sum;
  plain.inputs[TERN_LAYER_NORM_RESIDUAL] = {};
  plain.outputs[TERN_LAYER_NORM_SUM] = absent_desc();
  std::vector<Value> results = emitter.emit(plain);
  results[TERN_LAYER_NORM_SUM] = sum;
  return results;
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  if (arg(call, TERN_LAYER_NORM_RESIDUAL).present()) return add_first(emitter, call);
  const Value x = arg(call, TERN_LAYER_NORM_X);
  const Value bias = arg(call, TERN_LAYER_NORM_BIAS);
  const tern_dtype dtype = call.outputs[TERN_LAYER_NORM_Y].dtype;
  const Value mean = row_mean(emitter, x, call.needs);
  const RmsNormOut norm =
      rms_norm(emitter, less_by_row(emitter, x, mean, TERN_F32, call.needs), arg(call, TERN_LAYER_NORM_WEIGHT),
               {.eps = unpack_attrs<tern_layer_norm_attrs>(call.attrs).eps,
                .keep_rstd = is_present(call.outputs[TERN_LAYER_NORM_RSTD]),
                .out = bias.present() ? TERN_F32 : dtype,  // rounded once
                .needs = call.needs});
  std::vector<Value> results(TERN_LAYER_NORM_NUM_ARGS);
  results[TERN_LAYER_NORM_Y] = bias.present()
                                   ? axpby(emitter, norm.y, broadcast_rows(emitter, bias, emitter.desc(norm.y)),
                                           {.out = dtype, .needs = call.needs})
                                   : norm.y;
  if (norm.rstd.present()) results[TERN_LAYER_NORM_MEAN] = mean;
  results[TERN_LAYER_NORM_RSTD] = norm.rstd;
  return results;
}

std::string check_backward(Args args, AttrBytes) {
  return require(args[TERN_LAYER_NORM_BACKWARD_X].shape[1] >= 1, "x: expected a width of at least 1");
}

std::vector<Value> add_last(Emitter& emitter, const OpCall& call) {
  const TensorDesc& dx = call.outputs[TERN_LAYER_NORM_BACKWARD_DX];
  OpCall plain = call;
  plain.inputs[TERN_LAYER_NORM_BACKWARD_DSUM] = {};
  plain.outputs[TERN_LAYER_NORM_BACKWARD_DX] = like(dx, TERN_F32);
  std::vector<Value> results = emitter.emit(plain);
  results[TERN_LAYER_NORM_BACKWARD_DX] =
      axpby(emitter, results[TERN_LAYER_NORM_BACKWARD_DX], arg(call, TERN_LAYER_NORM_BACKWARD_DSUM),
            {.out = dx.dtype, .needs = call.needs});
  return results;
}

// c has no mean, so the mean of what rms_norm_backward gives is rstd mean(g).
std::vector<Value> decompose_backward(Emitter& emitter, const OpCall& call) {
  if (arg(call, TERN_LAYER_NORM_BACKWARD_DSUM).present()) return add_last(emitter, call);
  if (call.accumulate != 0) return decompose_accumulate(emitter, call);
  const Value dy = arg(call, TERN_LAYER_NORM_BACKWARD_DY);
  const Value c = less_by_row(emitter, arg(call, TERN_LAYER_NORM_BACKWARD_X), arg(call, TERN_LAYER_NORM_BACKWARD_MEAN),
                              TERN_F32, call.needs);
  const RmsNormGrads grads = rms_norm_backward(
      emitter, dy, c, arg(call, TERN_LAYER_NORM_BACKWARD_WEIGHT), arg(call, TERN_LAYER_NORM_BACKWARD_RSTD),
      {.dweight = is_present(call.outputs[TERN_LAYER_NORM_BACKWARD_DWEIGHT]), .needs = call.needs});
  std::vector<Value> results(TERN_LAYER_NORM_BACKWARD_NUM_ARGS);
  results[TERN_LAYER_NORM_BACKWARD_DX] = less_by_row(emitter, grads.dx, row_mean(emitter, grads.dx, call.needs),
                                                     call.outputs[TERN_LAYER_NORM_BACKWARD_DX].dtype, call.needs);
  results[TERN_LAYER_NORM_BACKWARD_DWEIGHT] = grads.dweight;
  if (is_present(call.outputs[TERN_LAYER_NORM_BACKWARD_DBIAS])) {
    results[TERN_LAYER_NORM_BACKWARD_DBIAS] = row_sum(emitter, dy, {.axis = 0, .needs = call.needs});
  }
  return results;
}

}  // namespace

LayerNormOut layer_norm(Emitter& emitter, Value x, Value weight, const LayerNormOptions& options) {
  const TensorDesc from = emitter.desc(x);
  CallBuilder builder(TERN_OP_LAYER_NORM, options.needs);
  builder.attrs(tern_layer_norm_attrs{options.eps})
      .in(TERN_LAYER_NORM_X, x)
      .in(TERN_LAYER_NORM_RESIDUAL, options.residual)
      .in(TERN_LAYER_NORM_WEIGHT, weight)
      .in(TERN_LAYER_NORM_BIAS, options.bias)
      .out(TERN_LAYER_NORM_Y, like(from, options.out));
  if (options.residual.present()) builder.out(TERN_LAYER_NORM_SUM, like(from, options.sum));
  if (options.keep_stats) {
    const TensorDesc of_row = rows_like(make_desc(TERN_F32, {from.shape[0]}), from);
    builder.out(TERN_LAYER_NORM_MEAN, of_row).out(TERN_LAYER_NORM_RSTD, of_row);
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_LAYER_NORM_Y], options.residual.present() ? out[TERN_LAYER_NORM_SUM] : x, out[TERN_LAYER_NORM_MEAN],
          out[TERN_LAYER_NORM_RSTD]};
}

LayerNormGrads layer_norm_backward(Emitter& emitter, Value dy, Value x, Value weight, const LayerNormStats& stats,
                                   const LayerNormBackwardOptions& options) {
  const TensorDesc from = emitter.desc(x);
  const TensorDesc of_width = make_desc(TERN_F32, {from.shape[1]});
  CallBuilder builder(TERN_OP_LAYER_NORM_BACKWARD, options.needs);
  builder.in(TERN_LAYER_NORM_BACKWARD_DY, dy)
      .in(TERN_LAYER_NORM_BACKWARD_X, x)
      .in(TERN_LAYER_NORM_BACKWARD_WEIGHT, weight)
      .in(TERN_LAYER_NORM_BACKWARD_MEAN, stats.mean)
      .in(TERN_LAYER_NORM_BACKWARD_RSTD, stats.rstd)
      .in(TERN_LAYER_NORM_BACKWARD_DSUM, options.dsum)
      .out(TERN_LAYER_NORM_BACKWARD_DX, like(from, options.out));
  if (options.dweight) builder.out(emitter, TERN_LAYER_NORM_BACKWARD_DWEIGHT, of_width, options.dweight_into);
  if (options.dbias) builder.out(emitter, TERN_LAYER_NORM_BACKWARD_DBIAS, of_width, options.dbias_into);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_LAYER_NORM_BACKWARD_DX], out[TERN_LAYER_NORM_BACKWARD_DWEIGHT], out[TERN_LAYER_NORM_BACKWARD_DBIAS]};
}

const OpRules layer_norm_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::layer_norm,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};
const OpRules layer_norm_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_backward,
    .reference = ref::layer_norm_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
