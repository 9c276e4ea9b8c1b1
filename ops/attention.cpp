#include "ops/attention.h"

#include <stdexcept>

#include "ops/attention_shared.h"
#include "ops/build.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/sink_scale.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  return check_attention(unpack_attrs<tern_attention_attrs>(bytes), args[TERN_ATTENTION_Q].shape[1],
                         args[TERN_ATTENTION_K].shape[1], args[TERN_ATTENTION_MASK]);
}

std::string check_backward(Args args, AttrBytes bytes) {
  return check_attention(unpack_attrs<tern_attention_attrs>(bytes), args[TERN_ATTENTION_BACKWARD_Q].shape[1],
                         args[TERN_ATTENTION_BACKWARD_K].shape[1], args[TERN_ATTENTION_BACKWARD_MASK]);
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (grads.of_output(TERN_ATTENTION_LSE).present()) throw std::logic_error("attention: lse has no gradient");
  if (!grads.result(TERN_ATTENTION_LSE).present())
    throw std::logic_error("attention: lse was not kept for the backward");
  const TensorDesc q = grads.desc(TERN_ATTENTION_Q);
  const TensorDesc k = grads.desc(TERN_ATTENTION_K);
  const TensorDesc v = grads.desc(TERN_ATTENTION_V);
  const bool want_sinks = grads.wanted(TERN_ATTENTION_SINKS);
  CallBuilder builder(TERN_OP_ATTENTION_BACKWARD, grads.needs());
  builder.attrs(unpack_attrs<tern_attention_backward_attrs>(call.call.attrs))
      .in(TERN_ATTENTION_BACKWARD_DOUT, grads.of_output(TERN_ATTENTION_OUT))
      .in(TERN_ATTENTION_BACKWARD_Q, grads.input(TERN_ATTENTION_Q))
      .in(TERN_ATTENTION_BACKWARD_K, grads.input(TERN_ATTENTION_K))
      .in(TERN_ATTENTION_BACKWARD_V, grads.input(TERN_ATTENTION_V))
      .in(TERN_ATTENTION_BACKWARD_OUT, grads.result(TERN_ATTENTION_OUT))
      .in(TERN_ATTENTION_BACKWARD_LSE, grads.result(TERN_ATTENTION_LSE))
      .in(TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q, grads.input(TERN_ATTENTION_CU_SEQLENS_Q))
      .in(TERN_ATTENTION_BACKWARD_CU_SEQLENS_K, grads.input(TERN_ATTENTION_CU_SEQLENS_K))
      .in(TERN_ATTENTION_BACKWARD_SINKS, grads.input(TERN_ATTENTION_SINKS))
      .in(TERN_ATTENTION_BACKWARD_MASK, grads.input(TERN_ATTENTION_MASK))
      .out(TERN_ATTENTION_BACKWARD_DQ, like(q, q.dtype))
      .out(TERN_ATTENTION_BACKWARD_DK, like(k, k.dtype))
      .out(TERN_ATTENTION_BACKWARD_DV, like(v, v.dtype));
  if (want_sinks) {
    builder.out(grads.emitter(), TERN_ATTENTION_BACKWARD_DSINKS, make_desc(TERN_F32, {q.shape[1]}),
                grads.absorb(TERN_ATTENTION_SINKS));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (grads.wanted(TERN_ATTENTION_Q)) grads.give(TERN_ATTENTION_Q, out[TERN_ATTENTION_BACKWARD_DQ]);
  if (grads.wanted(TERN_ATTENTION_K)) grads.give(TERN_ATTENTION_K, out[TERN_ATTENTION_BACKWARD_DK]);
  if (grads.wanted(TERN_ATTENTION_V)) grads.give(TERN_ATTENTION_V, out[TERN_ATTENTION_BACKWARD_DV]);
  if (want_sinks) grads.give(TERN_ATTENTION_SINKS, out[TERN_ATTENTION_BACKWARD_DSINKS]);
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  return decompose_sinks(emitter, call, {TERN_ATTENTION_SINKS, TERN_ATTENTION_OUT, TERN_ATTENTION_LSE});
}

// out and lse hold the sinks already: without them, dq, dk and dv are the same.
std::vector<Value> decompose_backward(Emitter& emitter, const OpCall& call) {
  if (call.accumulate != 0) return decompose_accumulate(emitter, call);
  const Value sinks = arg(call, TERN_ATTENTION_BACKWARD_SINKS);
  if (!sinks.present()) return {};
  OpCall plain = call;
  plain.inputs[TERN_ATTENTION_BACKWARD_SINKS] = {};
  plain.outputs[TERN_ATTENTION_BACKWARD_DSINKS] = absent_desc();
  std::vector<Value> results = emitter.emit(plain);
  if (is_present(call.outputs[TERN_ATTENTION_BACKWARD_DSINKS])) {
    results[TERN_ATTENTION_BACKWARD_DSINKS] =
        sink_scale_backward(emitter, arg(call, TERN_ATTENTION_BACKWARD_DOUT), arg(call, TERN_ATTENTION_BACKWARD_OUT),
                            arg(call, TERN_ATTENTION_BACKWARD_LSE), sinks, {}, call.needs);
  }
  return results;
}

double flops(const CallDesc& call, HostArrays lengths) {
  const TensorDesc& q = call[TERN_ATTENTION_Q];
  const std::int64_t widths = q.shape[2] + call[TERN_ATTENTION_V].shape[2];  // q k^T and p v
  return 2.0 * attended_pairs(call, lengths, Keys::cumulative) * static_cast<double>(q.shape[1] * widths);
}

Indices indices(const CallDesc& call) {
  return sequence_indices(
      call, {TERN_ATTENTION_CU_SEQLENS_Q, TERN_ATTENTION_Q, TERN_ATTENTION_CU_SEQLENS_K, TERN_ATTENTION_K});
}

double flops_backward(const CallDesc& call, HostArrays lengths) {
  const TensorDesc& q = call[TERN_ATTENTION_BACKWARD_Q];
  // q k^T, dq, dk over head_dim; dp, dv over value_dim
  const std::int64_t widths = 3 * q.shape[2] + 2 * call[TERN_ATTENTION_BACKWARD_V].shape[2];
  return 2.0 * attended_pairs(call, lengths, Keys::cumulative) * static_cast<double>(q.shape[1] * widths);
}

Indices indices_backward(const CallDesc& call) {
  return sequence_indices(call, {TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q, TERN_ATTENTION_BACKWARD_Q,
                                 TERN_ATTENTION_BACKWARD_CU_SEQLENS_K, TERN_ATTENTION_BACKWARD_K});
}

}  // namespace

AttentionOut attention(Emitter& emitter, Value q, Value k, Value v, Value cu_seqlens_q, Value cu_seqlens_k,
                       const AttentionOptions& options) {
  const TensorDesc query = emitter.desc(q);
  CallBuilder builder(TERN_OP_ATTENTION, options.needs);
  builder
      .attrs(tern_attention_attrs{options.scale, options.softcap, options.causal ? 1 : 0, options.window,
                                  options.max_seqlen_q, options.max_seqlen_k, options.window_right, options.chunk})
      .in(TERN_ATTENTION_Q, q)
      .in(TERN_ATTENTION_K, k)
      .in(TERN_ATTENTION_V, v)
      .in(TERN_ATTENTION_CU_SEQLENS_Q, cu_seqlens_q)
      .in(TERN_ATTENTION_CU_SEQLENS_K, cu_seqlens_k)
      .in(TERN_ATTENTION_SINKS, options.sinks)
      .in(TERN_ATTENTION_MASK, options.mask)
      .out(TERN_ATTENTION_OUT,
           rows_like(make_desc(options.out, {query.shape[0], query.shape[1], emitter.desc(v).shape[2]}), query));
  if (options.keep_lse) {
    builder.out(TERN_ATTENTION_LSE, rows_like(make_desc(TERN_F32, {query.shape[0], query.shape[1]}), query));
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_ATTENTION_OUT], out[TERN_ATTENTION_LSE]};
}

const OpRules attention_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::attention,
    .work = {flops, each_argument_once},
    .uses = no_weights,
    .row_dim = query_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kTrain,
};
const OpRules attention_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_backward,
    .reference = ref::attention_backward,
    .work = {flops_backward, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices_backward,
    .needed_by = kTrain,
};

}  // namespace tern::ops
