#include "ops/gated_delta_rule.h"

#include <cmath>
#include <stdexcept>

#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

constexpr RecurrentArgs kArgs = {TERN_GATED_DELTA_RULE_Q, TERN_GATED_DELTA_RULE_CU_SEQLENS,
                                 TERN_GATED_DELTA_RULE_KV_LENS, TERN_GATED_DELTA_RULE_SEATS,
                                 TERN_GATED_DELTA_RULE_STATE};

std::string check_sizes(const tern_gated_delta_rule_attrs& attrs, const TensorDesc& k, const TensorDesc& v) {
  return first_problem(
      require(std::isfinite(attrs.scale), "scale: expected a finite number"),
      require(attrs.max_seqlen >= 0, cat("max_seqlen: expected no negative number, found ", attrs.max_seqlen)),
      require(k.shape[1] >= 1 && v.shape[1] % k.shape[1] == 0,
              cat("heads: expected a multiple of ", k.shape[1], ", found ", v.shape[1])));
}

std::string check(Args args, AttrBytes bytes) {
  return first_problem(check_state(args, kArgs),
                       check_sizes(unpack_attrs<tern_gated_delta_rule_attrs>(bytes), args[TERN_GATED_DELTA_RULE_K],
                                   args[TERN_GATED_DELTA_RULE_V]));
}

std::string check_backward(Args args, AttrBytes bytes) {
  return check_sizes(unpack_attrs<tern_gated_delta_rule_attrs>(bytes), args[TERN_GATED_DELTA_RULE_BACKWARD_K],
                     args[TERN_GATED_DELTA_RULE_BACKWARD_V]);
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (grads.input(TERN_GATED_DELTA_RULE_STATE).present()) {
    throw std::logic_error("gated_delta_rule: with a state it has no gradient");
  }
  struct Pair {
    int input;
    int given;     // the backward's input of it
    int gradient;  // and its output
  };
  constexpr Pair kPairs[] = {
      {TERN_GATED_DELTA_RULE_Q, TERN_GATED_DELTA_RULE_BACKWARD_Q, TERN_GATED_DELTA_RULE_BACKWARD_DQ},
      {TERN_GATED_DELTA_RULE_K, TERN_GATED_DELTA_RULE_BACKWARD_K, TERN_GATED_DELTA_RULE_BACKWARD_DK},
      {TERN_GATED_DELTA_RULE_V, TERN_GATED_DELTA_RULE_BACKWARD_V, TERN_GATED_DELTA_RULE_BACKWARD_DV},
      {TERN_GATED_DELTA_RULE_DECAY, TERN_GATED_DELTA_RULE_BACKWARD_DECAY, TERN_GATED_DELTA_RULE_BACKWARD_DDECAY},
      {TERN_GATED_DELTA_RULE_BETA, TERN_GATED_DELTA_RULE_BACKWARD_BETA, TERN_GATED_DELTA_RULE_BACKWARD_DBETA}};
  CallBuilder builder(TERN_OP_GATED_DELTA_RULE_BACKWARD, grads.needs());
  builder.attrs(unpack_attrs<tern_gated_delta_rule_backward_attrs>(call.call.attrs))
      .in(TERN_GATED_DELTA_RULE_BACKWARD_DOUT, grads.of_output(TERN_GATED_DELTA_RULE_OUT))
      .in(TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS, grads.input(TERN_GATED_DELTA_RULE_CU_SEQLENS));
  for (const Pair& pair : kPairs) {
    const TensorDesc& desc = grads.desc(pair.input);
    builder.in(pair.given, grads.input(pair.input)).out(pair.gradient, like(desc, desc.dtype));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  for (const Pair& pair : kPairs) {
    if (grads.wanted(pair.input)) grads.give(pair.input, out[static_cast<std::size_t>(pair.gradient)]);
  }
  return grads.take();
}

// Products of one head's state with vectors in each row.
double products(const TensorDesc& k, const TensorDesc& v, double count) {
  return 2.0 * count * static_cast<double>(v.shape[0] * v.shape[1] * k.shape[2] * v.shape[2]);
}

double flops(const CallDesc& call, HostArrays) {
  return products(call[TERN_GATED_DELTA_RULE_K], call[TERN_GATED_DELTA_RULE_V], 3.0);  // S^T k, k u^T, S^T q
}

double flops_backward(const CallDesc& call, HostArrays) {
  // S^T k and k u^T again; q dout^T, S dout, D^T k, D u, S e, k e^T, and D * S
  return products(call[TERN_GATED_DELTA_RULE_BACKWARD_K], call[TERN_GATED_DELTA_RULE_BACKWARD_V], 9.0);
}

double bytes(const CallDesc& call, int arg, HostArrays) { return recurrent_bytes(call, arg, kArgs); }

Indices indices(const CallDesc& call) {
  return recurrent_indices(call, kArgs, unpack_attrs<tern_gated_delta_rule_attrs>(call.attrs).max_seqlen);
}

Indices indices_backward(const CallDesc& call) {
  Indices out;
  out.sequences = {{TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS, TERN_GATED_DELTA_RULE_BACKWARD_Q,
                    unpack_attrs<tern_gated_delta_rule_backward_attrs>(call.attrs).max_seqlen}};
  return out;
}

}  // namespace

GatedDeltaRuleOut gated_delta_rule(Emitter& emitter, const GatedDeltaRuleInputs& inputs,
                                   const GatedDeltaRuleOptions& options) {
  CallBuilder builder(TERN_OP_GATED_DELTA_RULE, options.needs);
  builder.attrs(tern_gated_delta_rule_attrs{options.scale, options.max_seqlen})
      .in(TERN_GATED_DELTA_RULE_Q, inputs.q)
      .in(TERN_GATED_DELTA_RULE_K, inputs.k)
      .in(TERN_GATED_DELTA_RULE_V, inputs.v)
      .in(TERN_GATED_DELTA_RULE_DECAY, inputs.decay)
      .in(TERN_GATED_DELTA_RULE_BETA, inputs.beta)
      .in(TERN_GATED_DELTA_RULE_CU_SEQLENS, inputs.cu_seqlens)
      .out(TERN_GATED_DELTA_RULE_OUT, like(emitter.desc(inputs.v), options.out));
  add_state(builder, emitter, options.before, kArgs);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_GATED_DELTA_RULE_OUT], out[TERN_GATED_DELTA_RULE_STATE]};
}

const OpRules gated_delta_rule_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::gated_delta_rule,
    .work = {flops, bytes},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};
const OpRules gated_delta_rule_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::gated_delta_rule_backward,
    .work = {flops_backward, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices_backward,
    .needed_by = kTrain,
};

}  // namespace tern::ops
