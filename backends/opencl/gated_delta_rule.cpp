// Yang, Kautz and Hatamizadeh, "Gated Delta Networks", ICLR 2025.
#include "backends/opencl/recurrent.h"

namespace tern::opencl {
namespace {

// The struct RuleSizes of cl/gated_delta_rule.cl.
struct Sizes {
  std::int64_t rows, k_heads, heads, key_dim, value_dim, sequences;
  std::int64_t q[3], k[3], v[3], decay[2], beta[2], state[4], out[3];
  float scale;
  std::int32_t has_state;
};

// Arguments that forward and backward share.
struct Places {
  int q, k, v, decay, beta, cu_seqlens;
};
constexpr Places kForward = {TERN_GATED_DELTA_RULE_Q,     TERN_GATED_DELTA_RULE_K,    TERN_GATED_DELTA_RULE_V,
                             TERN_GATED_DELTA_RULE_DECAY, TERN_GATED_DELTA_RULE_BETA, TERN_GATED_DELTA_RULE_CU_SEQLENS};
constexpr Places kBackward = {TERN_GATED_DELTA_RULE_BACKWARD_Q,    TERN_GATED_DELTA_RULE_BACKWARD_K,
                              TERN_GATED_DELTA_RULE_BACKWARD_V,    TERN_GATED_DELTA_RULE_BACKWARD_DECAY,
                              TERN_GATED_DELTA_RULE_BACKWARD_BETA, TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS};

Check& check_inputs(Check& check, const PlanDesc& desc, const Places& at) {
  const auto &k = desc.arg(at.k), &v = desc.arg(at.v);
  return check.floats({at.q, at.k, at.v})
      .dtype(at.decay, TERN_F32)
      .dtype(at.beta, TERN_F32)
      .dtype(at.cu_seqlens, TERN_I32)
      .rank(at.k, 3)
      .rank(at.v, 3)
      .rank(at.decay, 2)
      .same_shape({at.q, at.k})
      .same_shape({at.decay, at.beta})
      .dim(at.v, 0, k.shape[0])
      .dim(at.decay, 0, k.shape[0])
      .dim(at.decay, 1, v.shape[1])
      .that(k.shape[1] >= 1 && v.shape[1] % std::max<std::int64_t>(k.shape[1], 1) == 0,
            "heads are no multiple of k_heads")
      .that(k.shape[2] <= kMostStateRows, "keys are longer than a work-item's memory");
}

constexpr StatePlaces kState = {TERN_GATED_DELTA_RULE_STATE, TERN_GATED_DELTA_RULE_SEATS, TERN_GATED_DELTA_RULE_KV_LENS,
                                TERN_GATED_DELTA_RULE_CU_SEQLENS};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &k = desc.arg(TERN_GATED_DELTA_RULE_K), &v = desc.arg(TERN_GATED_DELTA_RULE_V);
  Check check(desc, reason);
  check_state(check, desc, kState);
  return check_inputs(check, desc, kForward)
      .floats({TERN_GATED_DELTA_RULE_OUT})
      .dtype(TERN_GATED_DELTA_RULE_STATE, TERN_F32)
      .rank(TERN_GATED_DELTA_RULE_STATE, 4)
      .same_shape({TERN_GATED_DELTA_RULE_V, TERN_GATED_DELTA_RULE_OUT})
      .dim(TERN_GATED_DELTA_RULE_STATE, 1, v.shape[1])
      .dim(TERN_GATED_DELTA_RULE_STATE, 2, k.shape[2])
      .dim(TERN_GATED_DELTA_RULE_STATE, 3, v.shape[2])
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("W", row_tile(desc.device).width)
      .set("GROUP", 1)
      .set("KEY_ROOM", room_for(desc.arg(TERN_GATED_DELTA_RULE_K).shape[2]))
      .tensor("q", desc, TERN_GATED_DELTA_RULE_Q)
      .tensor("k", desc, TERN_GATED_DELTA_RULE_K)
      .tensor("v", desc, TERN_GATED_DELTA_RULE_V)
      .tensor("out", desc, TERN_GATED_DELTA_RULE_OUT);
  return {{"gated_delta_rule", "gated_delta_rule", defines.text()}};
}

template <typename S>
void take_inputs(const Launch& launch, const Places& at, S& sizes) {
  const TensorView &k = launch[at.k], &v = launch[at.v];
  sizes.rows = k.dim(0);
  sizes.k_heads = k.dim(1);
  sizes.heads = v.dim(1);
  sizes.key_dim = k.dim(2);
  sizes.value_dim = v.dim(2);
  sizes.sequences = std::max<std::int64_t>(launch[at.cu_seqlens].dim(0) - 1, 0);
  take_strides(launch[at.q], sizes.q);
  take_strides(k, sizes.k);
  take_strides(v, sizes.v);
  take_strides(launch[at.decay], sizes.decay);
  take_strides(launch[at.beta], sizes.beta);
}

void run(const Launch& launch) {
  const TensorView& state = launch[TERN_GATED_DELTA_RULE_STATE];
  Sizes sizes{};
  take_inputs(launch, kForward, sizes);
  if (state.present()) sizes.sequences = std::min(sizes.sequences, launch[TERN_GATED_DELTA_RULE_SEATS].dim(0));
  take_strides(state, sizes.state);
  take_strides(launch[TERN_GATED_DELTA_RULE_OUT], sizes.out);
  sizes.scale = launch.attr<tern_gated_delta_rule_attrs>().scale;
  sizes.has_state = state.present() ? 1 : 0;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_GATED_DELTA_RULE_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run(
      {sizes.heads * parts_of(sizes.value_dim, row_tile(launch.device()).width), sizes.sequences + 1, 1},
      {plain_group(launch.device()), 1, 1});
}

// The struct RuleSizes of cl/gated_delta_rule_backward.cl.
struct BackwardSizes {
  std::int64_t rows, k_heads, heads, key_dim, value_dim, sequences;
  std::int64_t q[3], k[3], v[3], decay[2], beta[2], dout[3];
  std::int64_t dq[3], dk[3], dv[3], ddecay[2], dbeta[2];
  std::int64_t slots, first_chunk;
  float scale;
};

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  return check_inputs(check, desc, kBackward)
      .floats({TERN_GATED_DELTA_RULE_BACKWARD_DOUT, TERN_GATED_DELTA_RULE_BACKWARD_DQ,
               TERN_GATED_DELTA_RULE_BACKWARD_DK, TERN_GATED_DELTA_RULE_BACKWARD_DV})
      .dtype(TERN_GATED_DELTA_RULE_BACKWARD_DDECAY, TERN_F32)
      .dtype(TERN_GATED_DELTA_RULE_BACKWARD_DBETA, TERN_F32)
      .same_shape(
          {TERN_GATED_DELTA_RULE_BACKWARD_K, TERN_GATED_DELTA_RULE_BACKWARD_DQ, TERN_GATED_DELTA_RULE_BACKWARD_DK})
      .same_shape(
          {TERN_GATED_DELTA_RULE_BACKWARD_V, TERN_GATED_DELTA_RULE_BACKWARD_DOUT, TERN_GATED_DELTA_RULE_BACKWARD_DV})
      .same_shape({TERN_GATED_DELTA_RULE_BACKWARD_DECAY, TERN_GATED_DELTA_RULE_BACKWARD_DDECAY,
                   TERN_GATED_DELTA_RULE_BACKWARD_DBETA})
      .ok();
}

Slots planned_slots(const Facts& device, const tern_op_desc& op) {
  const auto &k = op.args[kBackward.k], &v = op.args[kBackward.v];
  return slots_of(device, {k.shape[0], v.shape[1], k.shape[2], v.shape[2], op.args[kBackward.cu_seqlens].shape[0],
                           2 * k.shape[2] + 2});
}

std::uint64_t workspace_backward(const PlanDesc& desc) { return slot_bytes(planned_slots(desc.device, desc.op)); }

std::vector<Function> functions_backward(const PlanDesc& desc) {
  Defines defines;
  defines.set("W", row_tile(desc.device).width)
      .set("GROUP", 1)
      .set("HELD", kHeldRows)
      .set("KEY_ROOM", room_for(desc.arg(kBackward.k).shape[2]))
      .tensor("dout", desc, TERN_GATED_DELTA_RULE_BACKWARD_DOUT)
      .tensor("q", desc, kBackward.q)
      .tensor("k", desc, kBackward.k)
      .tensor("v", desc, kBackward.v)
      .tensor("dq", desc, TERN_GATED_DELTA_RULE_BACKWARD_DQ)
      .tensor("dk", desc, TERN_GATED_DELTA_RULE_BACKWARD_DK)
      .tensor("dv", desc, TERN_GATED_DELTA_RULE_BACKWARD_DV);
  return {{"gated_delta_rule_backward", "gated_delta_rule_columns", defines.text()},
          {"gated_delta_rule_backward", "gated_delta_rule_sums", defines.text()}};
}

void run_backward(const Launch& launch) {
  const TensorView &dq = launch[TERN_GATED_DELTA_RULE_BACKWARD_DQ], &dk = launch[TERN_GATED_DELTA_RULE_BACKWARD_DK];
  const TensorView& dv = launch[TERN_GATED_DELTA_RULE_BACKWARD_DV];
  const TensorView& ddecay = launch[TERN_GATED_DELTA_RULE_BACKWARD_DDECAY];
  const TensorView& dbeta = launch[TERN_GATED_DELTA_RULE_BACKWARD_DBETA];
  const TensorView& bounds = launch[kBackward.cu_seqlens];
  const Slots slots = planned_slots(launch.device(), launch.planned());
  BackwardSizes sizes{};
  take_inputs(launch, kBackward, sizes);
  if (sizes.rows == 0) return;
  take_strides(launch[TERN_GATED_DELTA_RULE_BACKWARD_DOUT], sizes.dout);
  take_strides(dq, sizes.dq);
  take_strides(dk, sizes.dk);
  take_strides(dv, sizes.dv);
  take_strides(ddecay, sizes.ddecay);
  take_strides(dbeta, sizes.dbeta);
  sizes.slots = slots.count;
  sizes.scale = launch.attr<tern_gated_delta_rule_backward_attrs>().scale;
  const Place sums = launch.workspace();
  const Place states = launch.workspace(static_cast<std::uint64_t>(slots.count * slots.sums) * sizeof(float));
  const std::int64_t chunks = parts_of(sizes.value_dim, row_tile(launch.device()).width);
  for (; sizes.first_chunk < chunks; sizes.first_chunk += slots.count) {
    Call call = launch.call(0);
    for (int i = 0; i <= kBackward.cu_seqlens; ++i) call.arg(launch[i]);
    call.arg(dv).arg(sums).arg(states).arg(sizes);
    call.run({sizes.heads * slots.count, sizes.sequences + 1, 1}, {plain_group(launch.device()), 1, 1});
  }
  launch.call(1).arg(sums).arg(bounds).arg(dq).arg(dk).arg(ddecay).arg(dbeta).arg(sizes).run(
      sizes.rows * sizes.k_heads, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATED_DELTA_RULE, "gated_delta_rule", supports, nullptr, functions, run},
                                    {TERN_OP_GATED_DELTA_RULE_BACKWARD, "gated_delta_rule_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList gated_delta_rule_kernels() { return kKernels; }

}  // namespace tern::opencl
