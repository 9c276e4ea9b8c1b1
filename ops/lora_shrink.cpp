#include "ops/lora_shrink.h"

#include <cmath>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/dropout.h"
#include "ops/matmul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

// Both ops have the same attributes.
template <typename Attrs>
std::string check_dropped(AttrBytes bytes, const TensorDesc& keys, const TensorDesc& mask) {
  const auto attrs = unpack_attrs<Attrs>(bytes);
  return first_problem(
      require(attrs.rate >= 0.0F && attrs.rate < 1.0F, cat("rate: expected [0, 1), found ", attrs.rate)),
      require(std::isfinite(attrs.alpha), "alpha: expected a number"),
      require(is_present(keys) || (attrs.rate == 0.0F && !is_present(mask)),
              "keys: expected where something is dropped"));
}

std::string check(Args args, AttrBytes bytes) {
  return check_dropped<tern_lora_shrink_attrs>(bytes, args[TERN_LORA_SHRINK_KEYS], args[TERN_LORA_SHRINK_MASK]);
}

std::string check_backward(Args args, AttrBytes bytes) {
  return first_problem(
      check_dropped<tern_lora_shrink_backward_attrs>(bytes, args[TERN_LORA_SHRINK_BACKWARD_KEYS],
                                                     args[TERN_LORA_SHRINK_BACKWARD_MASK]),
      require(is_present(args[TERN_LORA_SHRINK_BACKWARD_DX]) || is_present(args[TERN_LORA_SHRINK_BACKWARD_DA]),
              "expected dx, da or both"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const bool of_x = grads.wanted(TERN_LORA_SHRINK_X);
  const bool of_a = grads.wanted(TERN_LORA_SHRINK_A);
  if (!of_x && !of_a) return grads.take();
  const auto attrs = unpack_attrs<tern_lora_shrink_attrs>(call.call.attrs);
  const TensorDesc x = grads.desc(TERN_LORA_SHRINK_X);
  const TensorDesc a = grads.desc(TERN_LORA_SHRINK_A);
  CallBuilder builder(TERN_OP_LORA_SHRINK_BACKWARD, grads.needs());
  builder.attrs(tern_lora_shrink_backward_attrs{attrs.rate, attrs.site, attrs.alpha})
      .in(TERN_LORA_SHRINK_BACKWARD_DH, grads.of_output(TERN_LORA_SHRINK_H))
      .in(TERN_LORA_SHRINK_BACKWARD_X, grads.input(TERN_LORA_SHRINK_X))
      .in(TERN_LORA_SHRINK_BACKWARD_A, grads.input(TERN_LORA_SHRINK_A))
      .in(TERN_LORA_SHRINK_BACKWARD_KEYS, grads.input(TERN_LORA_SHRINK_KEYS))
      .in(TERN_LORA_SHRINK_BACKWARD_MASK, grads.input(TERN_LORA_SHRINK_MASK));
  if (of_x) {
    builder.out(grads.emitter(), TERN_LORA_SHRINK_BACKWARD_DX, like(x, x.dtype), grads.absorb(TERN_LORA_SHRINK_X));
  }
  if (of_a) {
    builder.out(grads.emitter(), TERN_LORA_SHRINK_BACKWARD_DA, like(a, TERN_F32), grads.absorb(TERN_LORA_SHRINK_A));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (of_x) grads.give(TERN_LORA_SHRINK_X, out[TERN_LORA_SHRINK_BACKWARD_DX]);
  if (of_a) grads.give(TERN_LORA_SHRINK_A, out[TERN_LORA_SHRINK_BACKWARD_DA]);
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const auto attrs = unpack_attrs<tern_lora_shrink_attrs>(call.attrs);
  Value x = arg(call, TERN_LORA_SHRINK_X);
  if (const Value keys = arg(call, TERN_LORA_SHRINK_KEYS); keys.present()) {
    x = dropout(emitter, x, keys,
                {.rate = attrs.rate,
                 .site = attrs.site,
                 .mask = arg(call, TERN_LORA_SHRINK_MASK),
                 .needs = call.needs});
  }
  std::vector<Value> out(call.inputs.size());
  out[TERN_LORA_SHRINK_H] = matmul(emitter, x, arg(call, TERN_LORA_SHRINK_A),
                                   {.transpose_b = true,
                                    .compute = TERN_F32,
                                    .alpha = attrs.alpha,
                                    .out = call.outputs[TERN_LORA_SHRINK_H].dtype,
                                    .needs = call.needs});
  return out;
}

std::vector<Value> decompose_backward(Emitter& emitter, const OpCall& call) {
  const auto attrs = unpack_attrs<tern_lora_shrink_backward_attrs>(call.attrs);
  const Value dh = arg(call, TERN_LORA_SHRINK_BACKWARD_DH);
  const Value keys = arg(call, TERN_LORA_SHRINK_BACKWARD_KEYS);
  DropoutOptions drop{.rate = attrs.rate,
                      .site = attrs.site,
                      .mask = arg(call, TERN_LORA_SHRINK_BACKWARD_MASK),
                      .needs = call.needs};
  MatmulOptions product{.compute = TERN_F32, .alpha = attrs.alpha, .needs = call.needs};
  std::vector<Value> out(call.inputs.size());
  if (const TensorDesc& da = call.outputs[TERN_LORA_SHRINK_BACKWARD_DA]; is_present(da)) {
    Value x = arg(call, TERN_LORA_SHRINK_BACKWARD_X);
    if (keys.present()) x = dropout(emitter, x, keys, drop);
    product.transpose_a = true;
    product.into = arg(call, TERN_LORA_SHRINK_BACKWARD_DA);
    out[TERN_LORA_SHRINK_BACKWARD_DA] = matmul(emitter, dh, x, product);
  }
  if (const TensorDesc& dx = call.outputs[TERN_LORA_SHRINK_BACKWARD_DX]; is_present(dx)) {
    const Value into = arg(call, TERN_LORA_SHRINK_BACKWARD_DX);
    product.transpose_a = false;
    product.into = keys.present() ? Value{} : into;
    product.out = keys.present() ? tern_dtype{TERN_F32} : dx.dtype;
    Value grad = matmul(emitter, dh, arg(call, TERN_LORA_SHRINK_BACKWARD_A), product);
    if (keys.present()) {
      drop.out = dx.dtype;
      drop.into = into;
      grad = dropout(emitter, grad, keys, drop);
    }
    out[TERN_LORA_SHRINK_BACKWARD_DX] = grad;
  }
  return out;
}

double product_flops(const CallDesc& call, int x, int a) {
  return 2.0 * static_cast<double>(num_elements(call[x])) * static_cast<double>(call[a].shape[0]);
}

double flops(const CallDesc& call, HostArrays) { return product_flops(call, TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_A); }

double flops_backward(const CallDesc& call, HostArrays) {
  const int products = (call.has(TERN_LORA_SHRINK_BACKWARD_DX) ? 1 : 0) + (call.has(TERN_LORA_SHRINK_BACKWARD_DA) ? 1 : 0);
  return products * product_flops(call, TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_A);
}

}  // namespace

Value lora_shrink(Emitter& emitter, Value x, Value a, const LoraShrinkOptions& options) {
  const TensorDesc& rows = emitter.desc(x);
  const TensorDesc h = rows_like(make_desc(options.out, {rows.shape[0], emitter.desc(a).shape[0]}), rows);
  return CallBuilder(TERN_OP_LORA_SHRINK, options.needs)
      .attrs(tern_lora_shrink_attrs{options.rate, options.site, options.alpha})
      .in(TERN_LORA_SHRINK_X, x)
      .in(TERN_LORA_SHRINK_A, a)
      .in(TERN_LORA_SHRINK_KEYS, options.keys)
      .in(TERN_LORA_SHRINK_MASK, options.mask)
      .out(TERN_LORA_SHRINK_H, h)
      .emit(emitter, TERN_LORA_SHRINK_H);
}

const OpRules lora_shrink_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::lora_shrink,
    .work = {flops, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};
const OpRules lora_shrink_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_backward,
    .reference = ref::lora_shrink_backward,
    .work = {flops_backward, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
