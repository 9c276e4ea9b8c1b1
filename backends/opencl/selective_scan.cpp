// Dao and Gu, "Transformers are SSMs", ICML 2024.
#include "backends/opencl/recurrent.h"

namespace tern::opencl {
namespace {

// The struct ScanSizes of cl/selective_scan.cl.
struct Sizes {
  std::int64_t rows, heads, head_dim, groups, state_size, sequences;
  std::int64_t x[3], dt[2], a, b[3], c[3], d, state[4], out[3];
  std::int32_t has_d, has_state;
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
      .that(b.shape[2] <= kMostStateRows, "a state is longer than a work-item's memory");
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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("W", row_tile(desc.device).width)
      .set("GROUP", 1)
      .set("STATE_ROOM", room_for(desc.arg(TERN_SELECTIVE_SCAN_B).shape[2]))
      .tensor("x", desc, TERN_SELECTIVE_SCAN_X)
      .tensor("b", desc, TERN_SELECTIVE_SCAN_B)
      .tensor("c", desc, TERN_SELECTIVE_SCAN_C)
      .tensor("d", desc, TERN_SELECTIVE_SCAN_D)
      .tensor("out", desc, TERN_SELECTIVE_SCAN_OUT);
  return {{"selective_scan", "selective_scan", defines.text()}};
}

template <typename S>
void take_inputs(const Launch& launch, const Places& at, S& sizes) {
  const TensorView &x = launch[at.x], &b = launch[at.b];
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = x.dim(2);
  sizes.groups = b.dim(1);
  sizes.state_size = b.dim(2);
  sizes.sequences = std::max<std::int64_t>(launch[at.cu_seqlens].dim(0) - 1, 0);
  take_strides(x, sizes.x);
  take_strides(launch[at.dt], sizes.dt);
  sizes.a = stride_of(launch[at.a]);
  take_strides(b, sizes.b);
  take_strides(launch[at.c], sizes.c);
  sizes.d = stride_of(launch[at.d]);
  sizes.has_d = launch[at.d].present() ? 1 : 0;
}

void run(const Launch& launch) {
  const TensorView& state = launch[TERN_SELECTIVE_SCAN_STATE];
  Sizes sizes{};
  take_inputs(launch, kForward, sizes);
  if (state.present()) sizes.sequences = std::min(sizes.sequences, launch[TERN_SELECTIVE_SCAN_SEATS].dim(0));
  take_strides(state, sizes.state);
  take_strides(launch[TERN_SELECTIVE_SCAN_OUT], sizes.out);
  sizes.has_state = state.present() ? 1 : 0;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_SELECTIVE_SCAN_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run({sizes.heads * parts_of(sizes.head_dim, row_tile(launch.device()).width), sizes.sequences + 1, 1},
                      {plain_group(launch.device()), 1, 1});
}

// The struct ScanSizes of cl/selective_scan_backward.cl.
struct BackwardSizes {
  std::int64_t rows, heads, head_dim, groups, state_size, sequences;
  std::int64_t x[3], dt[2], a, b[3], c[3], d, dout[3];
  std::int64_t dx[3], ddt[2], da, db[3], dc[3], dd;
  std::int64_t slots, first_chunk;
  std::int32_t has_d;
};

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
      .ok();
}

Slots planned_slots(const Facts& device, const tern_op_desc& op) {
  const auto &x = op.args[kBackward.x], &b = op.args[kBackward.b];
  return slots_of(device, {x.shape[0], x.shape[1], b.shape[2], x.shape[2], op.args[kBackward.cu_seqlens].shape[0],
                           2 * b.shape[2] + 3});
}

std::uint64_t workspace_backward(const PlanDesc& desc) { return slot_bytes(planned_slots(desc.device, desc.op)); }

std::vector<Function> functions_backward(const PlanDesc& desc) {
  Defines defines;
  defines.set("W", row_tile(desc.device).width)
      .set("GROUP", row_tile(desc.device).group)
      .set("HELD", kHeldRows)
      .set("STATE_ROOM", room_for(desc.arg(kBackward.b).shape[2]))
      .tensor("dout", desc, TERN_SELECTIVE_SCAN_BACKWARD_DOUT)
      .tensor("x", desc, kBackward.x)
      .tensor("b", desc, kBackward.b)
      .tensor("c", desc, kBackward.c)
      .tensor("d", desc, kBackward.d)
      .tensor("dx", desc, TERN_SELECTIVE_SCAN_BACKWARD_DX)
      .tensor("db", desc, TERN_SELECTIVE_SCAN_BACKWARD_DB)
      .tensor("dc", desc, TERN_SELECTIVE_SCAN_BACKWARD_DC)
      .tensor("da", desc, TERN_SELECTIVE_SCAN_BACKWARD_DA)
      .tensor("dd", desc, TERN_SELECTIVE_SCAN_BACKWARD_DD)
      .adds("da", desc, TERN_SELECTIVE_SCAN_BACKWARD_DA)
      .adds("dd", desc, TERN_SELECTIVE_SCAN_BACKWARD_DD);
  return {{"selective_scan_backward", "selective_scan_columns", defines.text()},
          {"selective_scan_backward", "selective_scan_sums", defines.text()},
          {"selective_scan_backward", "selective_scan_heads", defines.text()}};
}

BackwardSizes backward_sizes(const Launch& launch, const Slots& slots) {
  BackwardSizes sizes{};
  take_inputs(launch, kBackward, sizes);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DOUT], sizes.dout);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DX], sizes.dx);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DDT], sizes.ddt);
  sizes.da = stride_of(launch[TERN_SELECTIVE_SCAN_BACKWARD_DA]);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DB], sizes.db);
  take_strides(launch[TERN_SELECTIVE_SCAN_BACKWARD_DC], sizes.dc);
  sizes.dd = stride_of(launch[TERN_SELECTIVE_SCAN_BACKWARD_DD]);
  sizes.slots = slots.count;
  return sizes;
}

void run_backward(const Launch& launch) {
  const TensorView &dx = launch[TERN_SELECTIVE_SCAN_BACKWARD_DX], &ddt = launch[TERN_SELECTIVE_SCAN_BACKWARD_DDT];
  const TensorView &db = launch[TERN_SELECTIVE_SCAN_BACKWARD_DB], &dc = launch[TERN_SELECTIVE_SCAN_BACKWARD_DC];
  const TensorView &da = launch[TERN_SELECTIVE_SCAN_BACKWARD_DA], &dd = launch[TERN_SELECTIVE_SCAN_BACKWARD_DD];
  const TensorView &bounds = launch[kBackward.cu_seqlens], &a = launch[kBackward.a], &dt = launch[kBackward.dt];
  const Slots slots = planned_slots(launch.device(), launch.planned());
  const std::int64_t plain = plain_group(launch.device()), group = row_tile(launch.device()).group;
  BackwardSizes sizes = backward_sizes(launch, slots);
  const Place sums = launch.workspace();
  const Place states = launch.workspace(static_cast<std::uint64_t>(slots.count * slots.sums) * sizeof(float));
  const std::int64_t chunks = parts_of(sizes.head_dim, row_tile(launch.device()).width);
  for (; sizes.first_chunk < chunks && sizes.rows > 0; sizes.first_chunk += slots.count) {
    Call call = launch.call(0);
    for (int i = 0; i <= kBackward.cu_seqlens; ++i) call.arg(launch[i]);
    call.arg(dx).arg(sums).arg(states).arg(sizes);
    call.run({sizes.heads * slots.count, sizes.sequences + 1, 1}, {plain, 1, 1});
  }
  launch.call(1).arg(sums).arg(bounds).arg(a).arg(ddt).arg(db).arg(dc).arg(sizes).run(sizes.rows * sizes.groups, plain);
  if (!da.present() && !dd.present()) return;
  launch.call(2).arg(sums).arg(bounds).arg(dt).arg(da).arg(dd).arg(sizes).run(sizes.heads * group, group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SELECTIVE_SCAN, "selective_scan", supports, nullptr, functions, run},
                                    {TERN_OP_SELECTIVE_SCAN_BACKWARD, "selective_scan_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList selective_scan_kernels() { return kKernels; }

}  // namespace tern::opencl
