#include "ops/selective_scan.h"

#include <stdexcept>

#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

constexpr RecurrentArgs kArgs = {TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_CU_SEQLENS, TERN_SELECTIVE_SCAN_KV_LENS,
                                 TERN_SELECTIVE_SCAN_SEATS, TERN_SELECTIVE_SCAN_STATE};

std::string check_sizes(std::int32_t max_seqlen, const TensorDesc& x, const TensorDesc& b) {
  return first_problem(require(max_seqlen >= 0, cat("max_seqlen: expected no negative number, found ", max_seqlen)),
                       require(b.shape[1] >= 1 && x.shape[1] % b.shape[1] == 0,
                               cat("heads: expected a multiple of ", b.shape[1], ", found ", x.shape[1])));
}

std::string check(Args args, AttrBytes bytes) {
  return first_problem(check_state(args, kArgs), check_sizes(unpack_attrs<tern_selective_scan_attrs>(bytes).max_seqlen,
                                                             args[TERN_SELECTIVE_SCAN_X], args[TERN_SELECTIVE_SCAN_B]));
}

std::string check_backward(Args args, AttrBytes bytes) {
  return first_problem(
      check_sizes(unpack_attrs<tern_selective_scan_backward_attrs>(bytes).max_seqlen,
                  args[TERN_SELECTIVE_SCAN_BACKWARD_X], args[TERN_SELECTIVE_SCAN_BACKWARD_B]),
      require(!is_present(args[TERN_SELECTIVE_SCAN_BACKWARD_DD]) || is_present(args[TERN_SELECTIVE_SCAN_BACKWARD_D]),
              "dd: expected d with it"));
}

struct Pair {
  int input;
  int given;     // the backward's input of it
  int gradient;  // and its output
};
constexpr Pair kRows[] = {{TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_DX},
                          {TERN_SELECTIVE_SCAN_DT, TERN_SELECTIVE_SCAN_BACKWARD_DT, TERN_SELECTIVE_SCAN_BACKWARD_DDT},
                          {TERN_SELECTIVE_SCAN_B, TERN_SELECTIVE_SCAN_BACKWARD_B, TERN_SELECTIVE_SCAN_BACKWARD_DB},
                          {TERN_SELECTIVE_SCAN_C, TERN_SELECTIVE_SCAN_BACKWARD_C, TERN_SELECTIVE_SCAN_BACKWARD_DC}};
constexpr Pair kSums[] = {{TERN_SELECTIVE_SCAN_A, TERN_SELECTIVE_SCAN_BACKWARD_A, TERN_SELECTIVE_SCAN_BACKWARD_DA},
                          {TERN_SELECTIVE_SCAN_D, TERN_SELECTIVE_SCAN_BACKWARD_D, TERN_SELECTIVE_SCAN_BACKWARD_DD}};

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (grads.input(TERN_SELECTIVE_SCAN_STATE).present()) {
    throw std::logic_error("selective_scan: with a state it has no gradient");
  }
  CallBuilder builder(TERN_OP_SELECTIVE_SCAN_BACKWARD, grads.needs());
  builder.attrs(unpack_attrs<tern_selective_scan_backward_attrs>(call.call.attrs))
      .in(TERN_SELECTIVE_SCAN_BACKWARD_DOUT, grads.of_output(TERN_SELECTIVE_SCAN_OUT))
      .in(TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS, grads.input(TERN_SELECTIVE_SCAN_CU_SEQLENS));
  for (const Pair& pair : kRows) {
    const TensorDesc& desc = grads.desc(pair.input);
    builder.in(pair.given, grads.input(pair.input)).out(pair.gradient, like(desc, desc.dtype));
  }
  for (const Pair& pair : kSums) {
    builder.in(pair.given, grads.input(pair.input));
    if (!grads.wanted(pair.input)) continue;
    builder.out(grads.emitter(), pair.gradient, make_desc(TERN_F32, shape_of(grads.desc(pair.input))),
                grads.absorb(pair.input));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  const auto give = [&](const Pair& pair) {
    if (grads.wanted(pair.input)) grads.give(pair.input, out[static_cast<std::size_t>(pair.gradient)]);
  };
  for (const Pair& pair : kRows) give(pair);
  for (const Pair& pair : kSums) give(pair);
  return grads.take();
}

// Products of each head's state with vectors in each row.
double products(const TensorDesc& x, const TensorDesc& b, double count) {
  return 2.0 * count * static_cast<double>(x.shape[0] * x.shape[1] * x.shape[2] * b.shape[2]);
}

double flops(const CallDesc& call, HostArrays) {
  return products(call[TERN_SELECTIVE_SCAN_X], call[TERN_SELECTIVE_SCAN_B], 2.0);  // b x^T, S^T c
}

double flops_backward(const CallDesc& call, HostArrays) {
  // b x^T again; c dout^T, S dout, G^T b, G x, and G * S
  return products(call[TERN_SELECTIVE_SCAN_BACKWARD_X], call[TERN_SELECTIVE_SCAN_BACKWARD_B], 6.0);
}

double bytes(const CallDesc& call, int arg, HostArrays) { return recurrent_bytes(call, arg, kArgs); }

Indices indices(const CallDesc& call) {
  return recurrent_indices(call, kArgs, unpack_attrs<tern_selective_scan_attrs>(call.attrs).max_seqlen);
}

Indices indices_backward(const CallDesc& call) {
  Indices out;
  out.sequences = {{TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS, TERN_SELECTIVE_SCAN_BACKWARD_X,
                    unpack_attrs<tern_selective_scan_backward_attrs>(call.attrs).max_seqlen}};
  return out;
}

}  // namespace

SelectiveScanOut selective_scan(Emitter& emitter, const SelectiveScanInputs& inputs,
                                const SelectiveScanOptions& options) {
  CallBuilder builder(TERN_OP_SELECTIVE_SCAN, options.needs);
  builder.attrs(tern_selective_scan_attrs{options.max_seqlen})
      .in(TERN_SELECTIVE_SCAN_X, inputs.x)
      .in(TERN_SELECTIVE_SCAN_DT, inputs.dt)
      .in(TERN_SELECTIVE_SCAN_A, inputs.a)
      .in(TERN_SELECTIVE_SCAN_B, inputs.b)
      .in(TERN_SELECTIVE_SCAN_C, inputs.c)
      .in(TERN_SELECTIVE_SCAN_D, inputs.d)
      .in(TERN_SELECTIVE_SCAN_CU_SEQLENS, inputs.cu_seqlens)
      .out(TERN_SELECTIVE_SCAN_OUT, like(emitter.desc(inputs.x), options.out));
  add_state(builder, emitter, options.before, kArgs);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_SELECTIVE_SCAN_OUT], out[TERN_SELECTIVE_SCAN_STATE]};
}

const OpRules selective_scan_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::selective_scan,
    .work = {flops, bytes},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};
const OpRules selective_scan_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_accumulate,
    .reference = ref::selective_scan_backward,
    .work = {flops_backward, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices_backward,
    .needed_by = kTrain,
};

}  // namespace tern::ops
