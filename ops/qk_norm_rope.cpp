#include "ops/qk_norm_rope.h"

#include <stdexcept>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/fill.h"
#include "ops/mul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/row_sum.h"

namespace tern::ops {
namespace {

// positions, cos and sin come together or not at all, and turn no more features than there are.
std::string check_rotation(const TensorDesc& x, const TensorDesc& positions, const TensorDesc& cos,
                           const TensorDesc& sin) {
  const bool turns = is_present(positions);
  return first_problem(
      require(x.shape[2] >= 1, "x: expected a head_dim of at least 1"),
      require(is_present(cos) == turns, "cos: expected one iff there are positions"),
      require(is_present(sin) == turns, "sin: expected one iff there are positions"),
      require(!is_present(cos) || cos.shape[1] * 2 <= x.shape[2], "cos: more features are rotated than a head has"));
}

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_qk_norm_rope_attrs>(bytes);
  return first_problem(require_flag("interleaved", attrs.interleaved),
                       require(attrs.eps >= 0.0F, "eps: expected no negative number"),
                       check_rotation(args[TERN_QK_NORM_ROPE_X], args[TERN_QK_NORM_ROPE_POSITIONS],
                                      args[TERN_QK_NORM_ROPE_COS], args[TERN_QK_NORM_ROPE_SIN]));
}

std::string check_backward(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_qk_norm_rope_backward_attrs>(bytes);
  const bool has_weight = is_present(args[TERN_QK_NORM_ROPE_BACKWARD_WEIGHT]);
  return first_problem(require_flag("interleaved", attrs.interleaved),
                       check_rotation(args[TERN_QK_NORM_ROPE_BACKWARD_X], args[TERN_QK_NORM_ROPE_BACKWARD_POSITIONS],
                                      args[TERN_QK_NORM_ROPE_BACKWARD_COS], args[TERN_QK_NORM_ROPE_BACKWARD_SIN]),
                       require(has_weight || !is_present(args[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT]),
                               "dweight: expected none without a weight"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const auto attrs = unpack_attrs<tern_qk_norm_rope_attrs>(call.call.attrs);
  const bool want_weight = grads.wanted(TERN_QK_NORM_ROPE_WEIGHT);
  if (!grads.result(TERN_QK_NORM_ROPE_RSTD).present()) {
    throw std::logic_error("qk_norm_rope: rstd was not kept for the backward");
  }
  const TensorDesc x = grads.desc(TERN_QK_NORM_ROPE_X);
  CallBuilder builder(TERN_OP_QK_NORM_ROPE_BACKWARD, grads.needs());
  builder.attrs(tern_qk_norm_rope_backward_attrs{attrs.weight_offset, attrs.interleaved})
      .in(TERN_QK_NORM_ROPE_BACKWARD_DY, grads.of_output(TERN_QK_NORM_ROPE_Y))
      .in(TERN_QK_NORM_ROPE_BACKWARD_X, grads.input(TERN_QK_NORM_ROPE_X))
      .in(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, grads.input(TERN_QK_NORM_ROPE_WEIGHT))
      .in(TERN_QK_NORM_ROPE_BACKWARD_RSTD, grads.result(TERN_QK_NORM_ROPE_RSTD))
      .in(TERN_QK_NORM_ROPE_BACKWARD_POSITIONS, grads.input(TERN_QK_NORM_ROPE_POSITIONS))
      .in(TERN_QK_NORM_ROPE_BACKWARD_COS, grads.input(TERN_QK_NORM_ROPE_COS))
      .in(TERN_QK_NORM_ROPE_BACKWARD_SIN, grads.input(TERN_QK_NORM_ROPE_SIN))
      .out(TERN_QK_NORM_ROPE_BACKWARD_DX, like(x, x.dtype));
  if (want_weight) {
    builder.out(grads.emitter(), TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, make_desc(TERN_F32, {x.shape[2]}),
                grads.absorb(TERN_QK_NORM_ROPE_WEIGHT));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (grads.wanted(TERN_QK_NORM_ROPE_X)) grads.give(TERN_QK_NORM_ROPE_X, out[TERN_QK_NORM_ROPE_BACKWARD_DX]);
  if (want_weight) grads.give(TERN_QK_NORM_ROPE_WEIGHT, out[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT]);
  return grads.take();
}

// [rows, heads, head_dim] seen as [rows * heads, head_dim] at full capacity: a norm of rows beyond the count is
// harmless.
Value flat(Emitter& emitter, Value x) {
  const TensorDesc desc = emitter.desc(x);
  return emitter.view(x, make_desc(desc.dtype, {desc.shape[0] * desc.shape[1], desc.shape[2]}), 0);
}

// The weight, or zeros of its shape.
Value weight_or_zeros(Emitter& emitter, Value weight, const TensorDesc& x, std::uint32_t needs) {
  return weight.present() ? weight : fill(emitter, make_desc(TERN_F32, {x.shape[2]}), 0.0F, {.needs = needs});
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const auto attrs = unpack_attrs<tern_qk_norm_rope_attrs>(call.attrs);
  const Value whole = contiguous(emitter, arg(call, TERN_QK_NORM_ROPE_X), call.needs);
  const TensorDesc x = emitter.desc(whole);
  const bool keep = is_present(call.outputs[TERN_QK_NORM_ROPE_RSTD]);
  const Value positions = arg(call, TERN_QK_NORM_ROPE_POSITIONS);
  const tern_dtype dtype = call.outputs[TERN_QK_NORM_ROPE_Y].dtype;
  const tern_dtype of_norm = positions.present() ? TERN_F32 : dtype;  // rounded once
  const RmsNormOut norm = rms_norm(
      emitter, flat(emitter, whole), weight_or_zeros(emitter, arg(call, TERN_QK_NORM_ROPE_WEIGHT), x, call.needs),
      {.eps = attrs.eps, .weight_offset = attrs.weight_offset, .keep_rstd = keep, .out = of_norm, .needs = call.needs});
  std::vector<Value> out(TERN_QK_NORM_ROPE_NUM_ARGS);
  out[TERN_QK_NORM_ROPE_Y] = emitter.view(norm.y, like(x, of_norm), 0);
  if (positions.present()) {
    out[TERN_QK_NORM_ROPE_Y] = rope(emitter, out[TERN_QK_NORM_ROPE_Y], positions, arg(call, TERN_QK_NORM_ROPE_COS),
                                    arg(call, TERN_QK_NORM_ROPE_SIN),
                                    {.interleaved = attrs.interleaved != 0, .out = dtype, .needs = call.needs});
  }
  if (keep)
    out[TERN_QK_NORM_ROPE_RSTD] = emitter.view(norm.rstd, like(call.outputs[TERN_QK_NORM_ROPE_RSTD], TERN_F32), 0);
  return out;
}

// dweight = sum over rows and heads of dn x rstd, where rows are dynamic: those beyond the count hold anything, and a
// sum over a dynamic dimension leaves them out.
Value dweight_of_valid_rows(Emitter& emitter, Value dn, Value x, Value rstd, const OpCall& call) {
  const TensorDesc desc = emitter.desc(x);
  const std::int64_t heads = desc.shape[1];
  const std::int64_t head_dim = desc.shape[2];
  TensorDesc wide = make_desc(TERN_F32, {desc.shape[0], heads, head_dim});
  wide.strides[0] = heads;
  wide.strides[1] = 1;
  wide.strides[2] = 0;
  const Value normal =
      mul(emitter, x, emitter.view(rstd, rows_like(wide, desc), 0), {.out = TERN_F32, .needs = call.needs});
  const Value terms = mul(emitter, dn, normal, {.out = TERN_F32, .needs = call.needs});
  const Value by_head = row_sum(emitter, as_matrix(emitter, terms), {.axis = 0, .out = TERN_F32, .needs = call.needs});
  return row_sum(
      emitter, emitter.view(by_head, make_desc(TERN_F32, {heads, head_dim}), 0),
      {.axis = 0, .out = TERN_F32, .into = arg(call, TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT), .needs = call.needs});
}

std::vector<Value> decompose_backward(Emitter& emitter, const OpCall& call) {
  const auto attrs = unpack_attrs<tern_qk_norm_rope_backward_attrs>(call.attrs);
  const Value x = contiguous(emitter, arg(call, TERN_QK_NORM_ROPE_BACKWARD_X), call.needs);
  const Value rstd = contiguous(emitter, arg(call, TERN_QK_NORM_ROPE_BACKWARD_RSTD), call.needs);
  const TensorDesc desc = emitter.desc(x);
  const bool want_weight = is_present(call.outputs[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT]);
  const Value positions = arg(call, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS);
  Value dnormal = arg(call, TERN_QK_NORM_ROPE_BACKWARD_DY);
  if (positions.present()) {
    dnormal = rope(emitter, dnormal, positions, arg(call, TERN_QK_NORM_ROPE_BACKWARD_COS),
                   arg(call, TERN_QK_NORM_ROPE_BACKWARD_SIN),
                   {.interleaved = attrs.interleaved != 0, .inverse = true, .needs = call.needs});
  } else {
    dnormal = contiguous(emitter, dnormal, call.needs);
  }
  const TensorDesc& dx = call.outputs[TERN_QK_NORM_ROPE_BACKWARD_DX];
  const RmsNormGrads grads =
      rms_norm_backward(emitter, flat(emitter, dnormal), flat(emitter, x),
                        weight_or_zeros(emitter, arg(call, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT), desc, call.needs),
                        emitter.view(rstd, make_desc(TERN_F32, {desc.shape[0] * desc.shape[1]}), 0),
                        {.weight_offset = attrs.weight_offset,
                         .dweight = want_weight && !is_dynamic(desc),
                         .dweight_into = is_dynamic(desc) ? Value{} : arg(call, TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT),
                         .out = dx.dtype,
                         .needs = call.needs});
  std::vector<Value> out(TERN_QK_NORM_ROPE_BACKWARD_NUM_ARGS);
  out[TERN_QK_NORM_ROPE_BACKWARD_DX] = emitter.view(grads.dx, like(desc, dx.dtype), 0);
  out[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT] =
      want_weight && is_dynamic(desc) ? dweight_of_valid_rows(emitter, dnormal, x, rstd, call) : grads.dweight;
  return out;
}

double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  const bool table = arg == TERN_QK_NORM_ROPE_COS || arg == TERN_QK_NORM_ROPE_SIN;
  return table && call.has(arg) ? bytes_of_rows(call, arg, TERN_QK_NORM_ROPE_POSITIONS)
                                : each_argument_once(call, arg, lengths);
}

Indices indices(const CallDesc& call) {
  if (!call.has(TERN_QK_NORM_ROPE_POSITIONS)) return {};
  return {.ranges = {{TERN_QK_NORM_ROPE_POSITIONS, 0, call[TERN_QK_NORM_ROPE_COS].shape[0] - 1}}};
}

double bytes_backward(const CallDesc& call, int arg, HostArrays lengths) {
  const bool table = arg == TERN_QK_NORM_ROPE_BACKWARD_COS || arg == TERN_QK_NORM_ROPE_BACKWARD_SIN;
  return table && call.has(arg) ? bytes_of_rows(call, arg, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS)
                                : each_argument_once(call, arg, lengths);
}

Indices indices_backward(const CallDesc& call) {
  if (!call.has(TERN_QK_NORM_ROPE_BACKWARD_POSITIONS)) return {};
  return {.ranges = {{TERN_QK_NORM_ROPE_BACKWARD_POSITIONS, 0, call[TERN_QK_NORM_ROPE_BACKWARD_COS].shape[0] - 1}}};
}

}  // namespace

QkNormRopeOut qk_norm_rope(Emitter& emitter, Value x, Value weight, Value positions, Value cos, Value sin,
                           const QkNormRopeOptions& options) {
  const TensorDesc from = emitter.desc(x);
  CallBuilder builder(TERN_OP_QK_NORM_ROPE, options.needs);
  builder.attrs(tern_qk_norm_rope_attrs{options.eps, options.weight_offset, options.interleaved ? 1 : 0})
      .in(TERN_QK_NORM_ROPE_X, x)
      .in(TERN_QK_NORM_ROPE_WEIGHT, weight)
      .in(TERN_QK_NORM_ROPE_POSITIONS, positions)
      .in(TERN_QK_NORM_ROPE_COS, cos)
      .in(TERN_QK_NORM_ROPE_SIN, sin)
      .out(TERN_QK_NORM_ROPE_Y, like(from, options.out));
  if (options.keep_rstd) {
    builder.out(TERN_QK_NORM_ROPE_RSTD, rows_like(make_desc(TERN_F32, {from.shape[0], from.shape[1]}), from));
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_QK_NORM_ROPE_Y], out[TERN_QK_NORM_ROPE_RSTD]};
}

const OpRules qk_norm_rope_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::qk_norm_rope,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};
const OpRules qk_norm_rope_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_backward,
    .reference = ref::qk_norm_rope_backward,
    .work = {no_products, bytes_backward},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = indices_backward,
    .needed_by = kTrain,
};

}  // namespace tern::ops
