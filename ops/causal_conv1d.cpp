#include "ops/causal_conv1d.h"

#include <stdexcept>

#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

constexpr RecurrentArgs kArgs = {TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_CU_SEQLENS, TERN_CAUSAL_CONV1D_KV_LENS,
                                 TERN_CAUSAL_CONV1D_SEATS, TERN_CAUSAL_CONV1D_STATE};

std::string check_length(std::int32_t max_seqlen) {
  return require(max_seqlen >= 0, cat("max_seqlen: expected no negative number, found ", max_seqlen));
}

std::string check(Args args, AttrBytes bytes) {
  return first_problem(check_state(args, kArgs),
                       check_length(unpack_attrs<tern_causal_conv1d_attrs>(bytes).max_seqlen));
}

std::string check_backward(Args, AttrBytes bytes) {
  return check_length(unpack_attrs<tern_causal_conv1d_backward_attrs>(bytes).max_seqlen);
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (grads.input(TERN_CAUSAL_CONV1D_STATE).present()) {
    throw std::logic_error("causal_conv1d: with a state it has no gradient");
  }
  const TensorDesc x = grads.desc(TERN_CAUSAL_CONV1D_X);
  CallBuilder builder(TERN_OP_CAUSAL_CONV1D_BACKWARD, grads.needs());
  builder.attrs(unpack_attrs<tern_causal_conv1d_backward_attrs>(call.call.attrs))
      .in(TERN_CAUSAL_CONV1D_BACKWARD_DY, grads.of_output(TERN_CAUSAL_CONV1D_Y))
      .in(TERN_CAUSAL_CONV1D_BACKWARD_X, grads.input(TERN_CAUSAL_CONV1D_X))
      .in(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, grads.input(TERN_CAUSAL_CONV1D_WEIGHT))
      .in(TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, grads.input(TERN_CAUSAL_CONV1D_CU_SEQLENS))
      .out(TERN_CAUSAL_CONV1D_BACKWARD_DX, like(x, x.dtype));
  const auto sum_into = [&](int input, int output) {
    if (!grads.wanted(input)) return;
    builder.out(grads.emitter(), output, make_desc(TERN_F32, shape_of(grads.desc(input))), grads.absorb(input));
  };
  sum_into(TERN_CAUSAL_CONV1D_WEIGHT, TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT);
  sum_into(TERN_CAUSAL_CONV1D_BIAS, TERN_CAUSAL_CONV1D_BACKWARD_DBIAS);
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (grads.wanted(TERN_CAUSAL_CONV1D_X)) grads.give(TERN_CAUSAL_CONV1D_X, out[TERN_CAUSAL_CONV1D_BACKWARD_DX]);
  if (grads.wanted(TERN_CAUSAL_CONV1D_WEIGHT)) {
    grads.give(TERN_CAUSAL_CONV1D_WEIGHT, out[TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT]);
  }
  if (grads.wanted(TERN_CAUSAL_CONV1D_BIAS)) {
    grads.give(TERN_CAUSAL_CONV1D_BIAS, out[TERN_CAUSAL_CONV1D_BACKWARD_DBIAS]);
  }
  return grads.take();
}

double bytes(const CallDesc& call, int arg, HostArrays) { return recurrent_bytes(call, arg, kArgs); }

// Channels stand alone.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const Shape& shape = op_spec(call.op).args[static_cast<std::size_t>(arg)].shape;
  return shape.find("channels") == dim ? by_name(call, arg, dim) : std::nullopt;
}

Indices indices(const CallDesc& call) {
  return recurrent_indices(call, kArgs, unpack_attrs<tern_causal_conv1d_attrs>(call.attrs).max_seqlen);
}

Indices indices_backward(const CallDesc& call) {
  Indices out;
  out.sequences = {{TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, TERN_CAUSAL_CONV1D_BACKWARD_X,
                    unpack_attrs<tern_causal_conv1d_backward_attrs>(call.attrs).max_seqlen}};
  return out;
}

}  // namespace

CausalConv1dOut causal_conv1d(Emitter& emitter, Value x, Value weight, Value cu_seqlens,
                              const CausalConv1dOptions& options) {
  CallBuilder builder(TERN_OP_CAUSAL_CONV1D, options.needs);
  builder.attrs(tern_causal_conv1d_attrs{options.max_seqlen})
      .in(TERN_CAUSAL_CONV1D_X, x)
      .in(TERN_CAUSAL_CONV1D_WEIGHT, weight)
      .in(TERN_CAUSAL_CONV1D_BIAS, options.bias)
      .in(TERN_CAUSAL_CONV1D_CU_SEQLENS, cu_seqlens)
      .out(TERN_CAUSAL_CONV1D_Y, like(emitter.desc(x), options.out));
  add_state(builder, emitter, options.before, kArgs);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_CAUSAL_CONV1D_Y], out[TERN_CAUSAL_CONV1D_STATE]};
}

const OpRules causal_conv1d_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::causal_conv1d,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = indices,
    .needed_by = kEveryCommand,
};
const OpRules causal_conv1d_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_accumulate,
    .reference = ref::causal_conv1d_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = indices_backward,
    .needed_by = kTrain,
};

}  // namespace tern::ops
