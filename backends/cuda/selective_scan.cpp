// Dao and Gu, "Transformers are SSMs", ICML 2024.
#include "backends/cuda/recurrent.h"

namespace tern::cuda {
namespace {

// The struct ScanSizes of cu/selective_scan.cu.
struct Sizes {
  std::int64_t rows, heads, groups, sequences;
  std::int32_t state_size, head_dim;
  std::int64_t x[3], dt[2], a, b[3], c[3], d, state[4], out[3];
};

// Arguments that forward and backward share.
struct Places {
  int x, dt, a, b, c, d, cu_seqlens;
};
constexpr Places kForward = {TERN_SELECTIVE_SCAN_X,         TERN_SELECTIVE_SCAN_DT, TERN_SELECTIVE_SCAN_A,
                             TERN_SELECTIVE_SCAN_B,         TERN_SELECTIVE_SCAN_C,  TERN_SELECTIVE_SCAN_D,
                             TERN_SELECTIVE_SCAN_CU_SEQLENS};
constexpr Places kBackward = {TERN_SELECTIVE_SCAN_BACKWARD_X,         TERN_SELECTIVE_SCAN_BACKWARD_DT,
                              TERN_SELECTIVE_SCAN_BACKWARD_A,         TERN_SELECTIVE_SCAN_BACKWARD_B,
                              TERN_SELECTIVE_SCAN_BACKWARD_C,         TERN_SELECTIVE_SCAN_BACKWARD_D,
                              TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS};

Check& check_inputs(Check& check, const PlanDesc& desc, const Places& at) {
  const auto &x = desc.arg(at.x), &b = desc.arg(at.b);
  return check.floats({at.x, at.b, at.c, at.d})
      .dtype(at.dt, TERN_F32)
      .dtype(at.a, TERN_F32)
      .dtype(at.cu_seqlens, TERN_I32)
      .rank(at.x, 3)
      .rank(at.b, 3)
      .rank(at.dt, 2)
      .rank(at.a, 1)
      .rank(at.d, 1)
      .same_shape({at.b, at.c})
      .dim(at.b, 0, x.shape[0])
      .dim(at.dt, 0, x.shape[0])
      .dim(at.dt, 1, x.shape[1])
      .dim(at.a, 0, x.shape[1])
      .dim(at.d, 0, x.shape[1])
      .that(b.shape[1] >= 1 && x.shape[1] % std::max<std::int64_t>(b.shape[1], 1) == 0,
            "heads are no multiple of groups")
      .that(b.shape[2] <= kMostStateRows, "states of more than 256 rows aren't implemented");
}

constexpr StatePlaces kState = {TERN_SELECTIVE_SCAN_STATE, TERN_SELECTIVE_SCAN_SEATS, TERN_SELECTIVE_SCAN_KV_LENS,
                                TERN_SELECTIVE_SCAN_CU_SEQLENS};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_SELECTIVE_SCAN_X), &b = desc.arg(TERN_SELECTIVE_SCAN_B);
  Check check(desc, reason);
  check_state(check, desc, kState);
  return check_inputs(check, desc, kForward)
      .floats({TERN_SELECTIVE_SCAN_OUT})
      .dtype(TERN_SELECTIVE_SCAN_STATE, TERN_F32)
      .rank(TERN_SELECTIVE_SCAN_STATE, 4)
      .same_shape({TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_OUT})
      .dim(TERN_SELECTIVE_SCAN_STATE, 1, x.shape[1])
      .dim(TERN_SELECTIVE_SCAN_STATE, 2, b.shape[2])
      .dim(TERN_SELECTIVE_SCAN_STATE, 3, x.shape[2])
      .ok();
}

Functions functions(const PlanDesc& desc) {
  return {carrying("selective_scan", desc.arg(TERN_SELECTIVE_SCAN_B).shape[2])};
}

template <typename S>
void take_inputs(const Launch& launch, const Places& at, S& sizes) {
  const TensorView &x = launch[at.x], &b = launch[at.b];
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = static_cast<std::int32_t>(x.dim(2));
  sizes.groups = b.dim(1);
  sizes.state_size = static_cast<std::int32_t>(b.dim(2));
  sizes.sequences = std::max<std::int64_t>(launch[at.cu_seqlens].dim(0) - 1, 0);
  take_strides(x, sizes.x);
  take_strides(launch[at.dt], sizes.dt);
  sizes.a = stride_of(launch[at.a]);
  take_strides(b, sizes.b);
  take_strides(launch[at.c], sizes.c);
  sizes.d = stride_of(launch[at.d]);
}

void run(const Launch& launch) {
  const TensorView &state = launch[TERN_SELECTIVE_SCAN_STATE], &seats = launch[TERN_SELECTIVE_SCAN_SEATS];
  Sizes sizes{};
  take_inputs(launch, kForward, sizes);
  if (state.present()) sizes.sequences = std::min(sizes.sequences, seats.dim(0));
  take_strides(state, sizes.state);
  take_strides(launch[TERN_SELECTIVE_SCAN_OUT], sizes.out);
  const Carrier carrier = carrier_of(sizes.state_size, sizes.head_dim);
  Call call = launch.call(0);
  call.arg(launch[kForward.x]).arg(launch[kForward.dt].planes[0]).arg(launch[kForward.a].planes[0]);
  call.arg(launch[kForward.b]).arg(launch[kForward.c]).arg(launch[kForward.d]);
  call.arg(launch[kForward.cu_seqlens].planes[0]).arg(launch[TERN_SELECTIVE_SCAN_KV_LENS].planes[0]);
  call.arg(seats.planes[0]).arg(state.planes[0]).arg(launch[TERN_SELECTIVE_SCAN_OUT]).arg(sizes);
  call.shared(tile_bytes(carrier, 1));
  call.run({carrier.chunks * sizes.heads * (sizes.sequences + 1), 1, 1}, {carrier.threads(), 1, 1});
}

// The struct ScanBackwardSizes of cu/selective_scan_backward.cu.
struct BackwardSizes {
  std::int64_t rows, heads, groups, sequences;
  std::int32_t state_size, head_dim;
  std::int64_t x[3], dt[2], a, b[3], c[3], d, dout[3];
  std::int64_t dx[3], ddt[2], da, db[3], dc[3], dd;
  BackwardLaunch launch;
  std::int64_t chunks;
};
constexpr std::int64_t kOfColumns = 2;  // vectors of columns that the backward stages for each row

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const std::int64_t heads = desc.arg(TERN_SELECTIVE_SCAN_BACKWARD_X).shape[1];
  Check check(desc, reason);
  return check_inputs(check, desc, kBackward)
      .floats({TERN_SELECTIVE_SCAN_BACKWARD_DOUT, TERN_SELECTIVE_SCAN_BACKWARD_DX, TERN_SELECTIVE_SCAN_BACKWARD_DB,
               TERN_SELECTIVE_SCAN_BACKWARD_DC})
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DDT, TERN_F32)
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DA, TERN_F32)
      .dtype(TERN_SELECTIVE_SCAN_BACKWARD_DD, TERN_F32)
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_DOUT, TERN_SELECTIVE_SCAN_BACKWARD_DX})
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_DT, TERN_SELECTIVE_SCAN_BACKWARD_DDT})
      .same_shape({TERN_SELECTIVE_SCAN_BACKWARD_B, TERN_SELECTIVE_SCAN_BACKWARD_DB, TERN_SELECTIVE_SCAN_BACKWARD_DC})
      .rank(TERN_SELECTIVE_SCAN_BACKWARD_DA, 1)
      .rank(TERN_SELECTIVE_SCAN_BACKWARD_DD, 1)
      .dim(TERN_SELECTIVE_SCAN_BACKWARD_DA, 0, heads)
      .dim(TERN_SELECTIVE_SCAN_BACKWARD_DD, 0, heads)
      .that(backward_bytes(carrier_of(desc.arg(kBackward.b).shape[2], desc.arg(kBackward.x).shape[2]), kOfColumns) <=
                desc.device.shared_memory,
            "states are larger than the device's shared memory")
      .ok();
}

BackwardPlan planned_backward(const tern_op_desc& op) {
  const auto &x = op.args[kBackward.x], &b = op.args[kBackward.b];
  return plan_backward({x.shape[0], x.shape[1], b.shape[1], b.shape[2], x.shape[2],
                        op.args[kBackward.cu_seqlens].shape[0], 2 * b.shape[2] + 3});
}

std::uint64_t workspace_backward(const PlanDesc& desc) { return planned_backward(desc.op).bytes(); }

Functions functions_backward(const PlanDesc& desc) {
  return {carrying("selective_scan_back", desc.arg(kBackward.b).shape[2]), "selective_scan_sums",
          "selective_scan_heads"};
}

BackwardSizes backward_sizes(const Launch& launch) {
  BackwardSizes sizes{};
  take_inputs(launch, kBackward, sizes);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DOUT], sizes.dout);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DX], sizes.dx);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DDT], sizes.ddt);
  sizes.da = stride_of(launch[TERN_SELECTIVE_SCAN_BACKWARD_DA]);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DB], sizes.db);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DC], sizes.dc);
  sizes.dd = stride_of(launch[TERN_SELECTIVE_SCAN_BACKWARD_DD]);
  return sizes;
}

void run_backward(const Launch& launch) {
  const TensorView &dx = launch[TERN_SELECTIVE_SCAN_BACKWARD_DX], &ddt = launch[TERN_SELECTIVE_SCAN_BACKWARD_DDT];
  const TensorView &db = launch[TERN_SELECTIVE_SCAN_BACKWARD_DB], &dc = launch[TERN_SELECTIVE_SCAN_BACKWARD_DC];
  const TensorView &da = launch[TERN_SELECTIVE_SCAN_BACKWARD_DA], &dd = launch[TERN_SELECTIVE_SCAN_BACKWARD_DD];
  const Place bounds = launch[kBackward.cu_seqlens].planes[0], a = launch[kBackward.a].planes[0];
  const Place dt = launch[kBackward.dt].planes[0];
  const BackwardPlan plan = planned_backward(launch.planned());
  BackwardSizes sizes = backward_sizes(launch);
  const Carrier carrier = carrier_of(sizes.state_size, sizes.head_dim);
  sizes.chunks = carrier.chunks;
  sizes.launch = {0, plan.heads, sizes.state_size, 3};
  const Place sums = launch.workspace();
  const Place states = launch.workspace(static_cast<std::uint64_t>(plan.sums) * sizeof(float));
  for (; sizes.launch.first_head < sizes.heads; sizes.launch.first_head += plan.heads) {
    sizes.launch.heads = std::min(plan.heads, sizes.heads - sizes.launch.first_head);
    Call call = launch.call(0);
    call.arg(launch[TERN_SELECTIVE_SCAN_BACKWARD_DOUT]).arg(launch[kBackward.x]).arg(dt).arg(a);
    call.arg(launch[kBackward.b]).arg(launch[kBackward.c]).arg(launch[kBackward.d]).arg(bounds);
    call.arg(dx).arg(sums).arg(states).arg(sizes).shared(backward_bytes(carrier, kOfColumns));
    const std::int64_t blocks = carrier.chunks * sizes.launch.heads * (sizes.sequences + 1);
    if (sizes.rows > 0) call.run({blocks, 1, 1}, {carrier.threads(), 1, 1});
    launch.call(1)
        .arg(sums)
        .arg(bounds)
        .arg(a)
        .arg(ddt.planes[0])
        .arg(db)
        .arg(dc)
        .arg(sizes)
        .run(sizes.rows * (sizes.launch.heads * sizes.groups / sizes.heads) * 32, kPlainThreads);
    if (!da.present() && !dd.present()) continue;
    launch.call(2).arg(sums).arg(bounds).arg(dt).arg(da).arg(dd).arg(sizes).run({sizes.launch.heads, 1, 1},
                                                                                {kGroup, 1, 1});
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SELECTIVE_SCAN, "selective_scan", supports, nullptr, functions, run},
                                    {TERN_OP_SELECTIVE_SCAN_BACKWARD, "selective_scan_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList selective_scan_kernels() { return kKernels; }

}  // namespace tern::cuda
