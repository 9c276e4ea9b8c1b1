// Yang, Kautz and Hatamizadeh, "Gated Delta Networks", ICLR 2025.
#include "backends/cuda/recurrent.h"

namespace tern::cuda {
namespace {

// The struct DeltaRuleSizes of cu/gated_delta_rule.cu.
struct Sizes {
  std::int64_t rows, k_heads, heads, sequences;
  std::int32_t key_dim, value_dim;
  std::int64_t q[3], k[3], v[3], decay[2], beta[2], state[4], out[3];
  float scale;
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
      .that(k.shape[2] <= kMostStateRows, "keys of more than 256 elements aren't implemented");
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

Functions functions(const PlanDesc& desc) {
  return {carrying("gated_delta_rule", desc.arg(TERN_GATED_DELTA_RULE_K).shape[2])};
}

template <typename S>
void take_inputs(const Launch& launch, const Places& at, S& sizes) {
  const TensorView &k = launch[at.k], &v = launch[at.v];
  sizes.rows = k.dim(0);
  sizes.k_heads = k.dim(1);
  sizes.heads = v.dim(1);
  sizes.key_dim = static_cast<std::int32_t>(k.dim(2));
  sizes.value_dim = static_cast<std::int32_t>(v.dim(2));
  sizes.sequences = std::max<std::int64_t>(launch[at.cu_seqlens].dim(0) - 1, 0);
  take_strides(launch[at.q], sizes.q);
  take_strides(k, sizes.k);
  take_strides(v, sizes.v);
  take_strides(launch[at.decay], sizes.decay);
  take_strides(launch[at.beta], sizes.beta);
}

void run(const Launch& launch) {
  const TensorView &state = launch[TERN_GATED_DELTA_RULE_STATE], &seats = launch[TERN_GATED_DELTA_RULE_SEATS];
  Sizes sizes{};
  take_inputs(launch, kForward, sizes);
  if (state.present()) sizes.sequences = std::min(sizes.sequences, seats.dim(0));
  take_strides(state, sizes.state);
  take_strides(launch[TERN_GATED_DELTA_RULE_OUT], sizes.out);
  sizes.scale = launch.attr<tern_gated_delta_rule_attrs>().scale;
  const Carrier carrier = carrier_of(sizes.key_dim, sizes.value_dim);
  Call call = launch.call(0);
  call.arg(launch[kForward.q]).arg(launch[kForward.k]).arg(launch[kForward.v]);
  call.arg(launch[kForward.decay].planes[0]).arg(launch[kForward.beta].planes[0]);
  call.arg(launch[kForward.cu_seqlens].planes[0]).arg(launch[TERN_GATED_DELTA_RULE_KV_LENS].planes[0]);
  call.arg(seats.planes[0]).arg(state.planes[0]).arg(launch[TERN_GATED_DELTA_RULE_OUT]).arg(sizes);
  call.shared(tile_bytes(carrier, 1));
  call.run({carrier.chunks * sizes.heads * (sizes.sequences + 1), 1, 1}, {carrier.threads(), 1, 1});
}

// The struct DeltaRuleBackwardSizes of cu/gated_delta_rule_backward.cu.
struct BackwardSizes {
  std::int64_t rows, k_heads, heads, sequences;
  std::int32_t key_dim, value_dim;
  std::int64_t q[3], k[3], v[3], decay[2], beta[2], dout[3];
  std::int64_t dq[3], dk[3], dv[3], ddecay[2], dbeta[2];
  BackwardLaunch launch;
  std::int64_t chunks;
  float scale;
};
constexpr std::int64_t kOfColumns = 3;  // vectors of columns that the backward stages for each row

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
      .that(backward_bytes(carrier_of(desc.arg(kBackward.k).shape[2], desc.arg(kBackward.v).shape[2]), kOfColumns) <=
                desc.device.shared_memory,
            "states are larger than the device's shared memory")
      .ok();
}

BackwardPlan planned_backward(const tern_op_desc& op) {
  const auto &k = op.args[kBackward.k], &v = op.args[kBackward.v];
  return plan_backward({k.shape[0], v.shape[1], k.shape[1], k.shape[2], v.shape[2],
                        op.args[kBackward.cu_seqlens].shape[0], 2 * k.shape[2] + 2});
}

std::uint64_t workspace_backward(const PlanDesc& desc) { return planned_backward(desc.op).bytes(); }

Functions functions_backward(const PlanDesc& desc) {
  return {carrying("gated_delta_rule_back", desc.arg(kBackward.k).shape[2]), "gated_delta_rule_sums"};
}

void run_backward(const Launch& launch) {
  const TensorView &dq = launch[TERN_GATED_DELTA_RULE_BACKWARD_DQ], &dk = launch[TERN_GATED_DELTA_RULE_BACKWARD_DK];
  const TensorView& dv = launch[TERN_GATED_DELTA_RULE_BACKWARD_DV];
  const TensorView& dout = launch[TERN_GATED_DELTA_RULE_BACKWARD_DOUT];
  const TensorView& ddecay = launch[TERN_GATED_DELTA_RULE_BACKWARD_DDECAY];
  const TensorView& dbeta = launch[TERN_GATED_DELTA_RULE_BACKWARD_DBETA];
  const Place bounds = launch[kBackward.cu_seqlens].planes[0];
  const BackwardPlan plan = planned_backward(launch.planned());
  BackwardSizes sizes{};
  take_inputs(launch, kBackward, sizes);
  take_strides(dout, sizes.dout);
  take_strides(dq, sizes.dq);
  take_strides(dk, sizes.dk);
  take_strides(dv, sizes.dv);
  take_strides(ddecay, sizes.ddecay);
  take_strides(dbeta, sizes.dbeta);
  sizes.scale = launch.attr<tern_gated_delta_rule_backward_attrs>().scale;
  const Carrier carrier = carrier_of(sizes.key_dim, sizes.value_dim);
  sizes.chunks = carrier.chunks;
  sizes.launch = {0, plan.heads, sizes.key_dim, 2};
  const Place sums = launch.workspace();
  const Place states = launch.workspace(static_cast<std::uint64_t>(plan.sums) * sizeof(float));
  for (; sizes.launch.first_head < sizes.heads && sizes.rows > 0; sizes.launch.first_head += plan.heads) {
    sizes.launch.heads = std::min(plan.heads, sizes.heads - sizes.launch.first_head);
    Call call = launch.call(0);
    call.arg(dout).arg(launch[kBackward.q]).arg(launch[kBackward.k]).arg(launch[kBackward.v]);
    call.arg(launch[kBackward.decay].planes[0]).arg(launch[kBackward.beta].planes[0]).arg(bounds);
    call.arg(dv).arg(sums).arg(states).arg(sizes).shared(backward_bytes(carrier, kOfColumns));
    call.run({carrier.chunks * sizes.launch.heads * (sizes.sequences + 1), 1, 1}, {carrier.threads(), 1, 1});
    Call behind = launch.call(1);
    behind.arg(sums).arg(bounds).arg(dq).arg(dk).arg(ddecay.planes[0]).arg(dbeta.planes[0]).arg(sizes);
    behind.run(sizes.rows * (sizes.launch.heads * sizes.k_heads / sizes.heads) * 32, kPlainThreads);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATED_DELTA_RULE, "gated_delta_rule", supports, nullptr, functions, run},
                                    {TERN_OP_GATED_DELTA_RULE_BACKWARD, "gated_delta_rule_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList gated_delta_rule_kernels() { return kKernels; }

}  // namespace tern::cuda
