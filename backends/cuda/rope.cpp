// Su et al., "RoFormer", 2021; with the norm of queries and keys before it, as Qwen3 has it.
#include <bit>

#include "backends/cuda/rows.h"

namespace tern::cuda {
namespace {

// The struct HeadSizes of cu/rotate.cuh.
struct HeadSizes {
  std::int64_t rows, heads, tables;
  std::int64_t positions, cos[2], sin[2];
  std::int32_t head_dim, half_of;
  std::int32_t interleaved, inverse;
};

// x [rows, heads, head_dim], positions [rows], cos and sin [positions, rotary / 2]: the last three from `positions` on.
void check_tables(Check& check, const PlanDesc& desc, int x, int positions) {
  const int cos = positions + 1;
  const int sin = positions + 2;
  check.rank(x, 3).dtype(positions, TERN_I32).rank(positions, 1).dim(positions, 0, desc.arg(x).shape[0]);
  check.dtype(cos, TERN_F32).dtype(sin, TERN_F32).rank(cos, 2).same_shape({cos, sin});
  check.that(desc.present(cos) == desc.present(positions) && desc.present(sin) == desc.present(positions),
             "cos and sin come with positions");
  check.that(!desc.present(cos) || 2 * desc.arg(cos).shape[1] <= desc.arg(x).shape[2],
             "cos has more columns than a head has pairs");
}

// The tables are those from `positions` on.
HeadSizes head_sizes(const Launch& launch, const TensorView& x, int positions) {
  const TensorView &cos = launch[positions + 1], &sin = launch[positions + 2];
  HeadSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = static_cast<std::int32_t>(x.dim(2));
  sizes.half_of = static_cast<std::int32_t>(cos.present() ? cos.dim(1) : 0);
  sizes.tables = cos.present() ? cos.dim(0) : 0;
  sizes.positions = stride_of(launch[positions]);
  take_strides(cos, sizes.cos);
  take_strides(sin, sizes.sin);
  return sizes;
}

// Vectors of a head that one thread turns, or keeps: chunks_of of cu/rotate.cuh.
std::int64_t chunks_of(std::int64_t head_dim, std::int64_t half_of) {
  return parts_of(half_of, kVector) + parts_of(head_dim - 2 * half_of, kVector);
}

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.floats({TERN_ROPE_X, TERN_ROPE_Y}).same_shape({TERN_ROPE_X, TERN_ROPE_Y});
  check_tables(check, desc, TERN_ROPE_X, TERN_ROPE_POSITIONS);
  return check.ok();
}

int dtype_of(const tern_op_desc& op) { return common_dtype(op, {TERN_ROPE_X, TERN_ROPE_Y}); }

Functions functions(const PlanDesc& desc) { return with_any("rope", dtype_of(desc.op)); }

// The struct RopeSizes of cu/rope.cu.
struct Sizes {
  HeadSizes head;
  std::int64_t x[3], y[3];
};

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_rope_attrs>();
  const TensorView &x = launch[TERN_ROPE_X], &y = launch[TERN_ROPE_Y];
  const TensorView &cos = launch[TERN_ROPE_COS], &sin = launch[TERN_ROPE_SIN];
  Sizes sizes{};
  sizes.head = head_sizes(launch, x, TERN_ROPE_POSITIONS);
  sizes.head.interleaved = attrs.interleaved;
  sizes.head.inverse = attrs.inverse;
  take_strides(x, sizes.x);
  take_strides(y, sizes.y);
  const std::int64_t items = sizes.head.heads * chunks_of(sizes.head.head_dim, sizes.head.half_of);
  const std::int64_t threads = std::clamp<std::int64_t>(round_up(items, 32), 32, 256);
  const bool wide = dtype_of(launch.planned()) >= 0 && are_wide({&x, &y, &cos, &sin});
  Call call = launch.call(wide ? 1 : 0);
  call.arg(x).arg(launch[TERN_ROPE_POSITIONS].planes[0]).arg(cos).arg(sin).arg(y).arg(sizes);
  call.overlapped().run({sizes.head.rows, 1, 1}, {threads, 1, 1});
}

// Threads that have a head together, and how many heads a block of kNormThreads has at a time.
constexpr std::int64_t kNormThreads = 128;
constexpr std::int64_t kMostLanes = 32;
constexpr std::int64_t kMostChunks = 64;  // of a head: 2 of a lane
std::int64_t lanes_of(std::int64_t chunks) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(chunks, 1, kMostLanes))));
}

void check_chunks(Check& check, const PlanDesc& desc, int x, int cos) {
  if (!check.ok()) return;
  const std::int64_t half_of = desc.present(cos) ? desc.arg(cos).shape[1] : 0;
  check.that(chunks_of(desc.arg(x).shape[2], half_of) <= kMostChunks,
             "heads of more than 512 features, or twice as many where they're turned, aren't implemented");
}

bool supports_norm(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_WEIGHT, TERN_QK_NORM_ROPE_Y});
  check.same_shape({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_Y});
  check_tables(check, desc, TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_POSITIONS);
  check.dim(TERN_QK_NORM_ROPE_WEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_RSTD, TERN_F32).rank(TERN_QK_NORM_ROPE_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_RSTD, 1, x.shape[1]);
  check_chunks(check, desc, TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_COS);
  return check.ok();
}

int dtype_of_norm(const tern_op_desc& op) { return common_dtype(op, {TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_Y}); }

Functions functions_norm(const PlanDesc& desc) { return with_any("qk_norm_rope", dtype_of_norm(desc.op)); }

// The struct QkNormSizes of cu/qk_norm_rope.cu.
struct NormSizes {
  HeadSizes head;
  std::int64_t x[3], weight, y[3], rstd[2];
  float eps, weight_offset;
  std::int32_t lanes;
};

void run_norm(const Launch& launch) {
  const auto& attrs = launch.attr<tern_qk_norm_rope_attrs>();
  const TensorView &x = launch[TERN_QK_NORM_ROPE_X], &weight = launch[TERN_QK_NORM_ROPE_WEIGHT];
  const TensorView &cos = launch[TERN_QK_NORM_ROPE_COS], &sin = launch[TERN_QK_NORM_ROPE_SIN];
  const TensorView &y = launch[TERN_QK_NORM_ROPE_Y], &rstd = launch[TERN_QK_NORM_ROPE_RSTD];
  NormSizes sizes{};
  sizes.head = head_sizes(launch, x, TERN_QK_NORM_ROPE_POSITIONS);
  sizes.head.interleaved = attrs.interleaved;
  take_strides(x, sizes.x);
  sizes.weight = stride_of(weight);
  take_strides(y, sizes.y);
  take_strides(rstd, sizes.rstd);
  sizes.eps = attrs.eps;
  sizes.weight_offset = attrs.weight_offset;
  const std::int64_t chunks = chunks_of(sizes.head.head_dim, sizes.head.half_of), lanes = lanes_of(chunks);
  sizes.lanes = static_cast<std::int32_t>(lanes);
  const bool wide = chunks <= lanes && dtype_of_norm(launch.planned()) >= 0 && are_wide({&x, &weight, &cos, &sin, &y});
  Call call = launch.call(wide ? 1 : 0);
  call.arg(x).arg(weight).arg(launch[TERN_QK_NORM_ROPE_POSITIONS].planes[0]).arg(cos).arg(sin).arg(y);
  call.arg(rstd.planes[0]).arg(sizes).overlapped().run(sizes.head.rows * sizes.head.heads * lanes, kNormThreads);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT,
                TERN_QK_NORM_ROPE_BACKWARD_DX});
  check.same_shape({TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_DX});
  check_tables(check, desc, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS);
  check.that(desc.present(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT) || !desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT),
             "dweight comes with a weight");
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, 0, x.shape[2]).dim(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, TERN_F32).dtype(TERN_QK_NORM_ROPE_BACKWARD_RSTD, TERN_F32);
  check.rank(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 1, x.shape[1]);
  check_chunks(check, desc, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_COS);
  return check.ok();
}

std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  const bool sums = desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT);
  return sums ? partial_bytes(x.shape[0] * x.shape[1], x.shape[2]) : 0;
}

int dtype_backward(const tern_op_desc& op) {
  return common_dtype(op, {TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_DX});
}

Functions functions_backward(const PlanDesc& desc) {
  return with_any("qk_norm_rope_backward", dtype_backward(desc.op), {"column_sum"});
}

// The struct QkNormBackwardSizes of cu/qk_norm_rope.cu.
struct BackwardSizes {
  HeadSizes head;
  std::int64_t units_of_block;
  std::int64_t dy[3], x[3], weight, rstd[2], dx[3];
  float weight_offset;
  std::int32_t lanes;
};

void run_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_qk_norm_rope_backward_attrs>();
  const TensorView &dy = launch[TERN_QK_NORM_ROPE_BACKWARD_DY], &x = launch[TERN_QK_NORM_ROPE_BACKWARD_X];
  const TensorView& weight = launch[TERN_QK_NORM_ROPE_BACKWARD_WEIGHT];
  const TensorView &rstd = launch[TERN_QK_NORM_ROPE_BACKWARD_RSTD], &cos = launch[TERN_QK_NORM_ROPE_BACKWARD_COS];
  const TensorView &sin = launch[TERN_QK_NORM_ROPE_BACKWARD_SIN], &dx = launch[TERN_QK_NORM_ROPE_BACKWARD_DX];
  const TensorView& dweight = launch[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT];
  BackwardSizes sizes{};
  sizes.head = head_sizes(launch, x, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS);
  sizes.head.interleaved = attrs.interleaved;
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  sizes.weight = stride_of(weight);
  take_strides(rstd, sizes.rstd);
  take_strides(dx, sizes.dx);
  sizes.weight_offset = attrs.weight_offset;
  const std::int64_t chunks = chunks_of(sizes.head.head_dim, sizes.head.half_of), lanes = lanes_of(chunks);
  const std::int64_t units = sizes.head.rows * sizes.head.heads;
  sizes.lanes = static_cast<std::int32_t>(lanes);
  sizes.units_of_block = dweight.present() ? summed_rows(units) : kNormThreads / lanes;
  const std::int64_t blocks = parts_of(units, sizes.units_of_block);
  const Place partial = dweight.present() ? launch.workspace() : 0;
  const bool wide =
      chunks <= lanes && dtype_backward(launch.planned()) >= 0 && are_wide({&dy, &x, &weight, &cos, &sin, &dx});
  Call call = launch.call(wide ? 2 : 0);
  call.arg(dy).arg(x).arg(weight).arg(rstd.planes[0]);
  call.arg(launch[TERN_QK_NORM_ROPE_BACKWARD_POSITIONS].planes[0]).arg(cos).arg(sin).arg(dx).arg(partial).arg(sizes);
  call.overlapped().run({blocks, 1, 1}, {kNormThreads, 1, 1});
  if (dweight.present()) sum_columns(launch.call(1), dweight, partial, blocks);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ROPE, "rope", supports, nullptr, functions, run},
    {TERN_OP_QK_NORM_ROPE, "qk_norm_rope", supports_norm, nullptr, functions_norm, run_norm},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, "qk_norm_rope_backward", supports_backward, workspace_backward, functions_backward,
     run_backward}};

}  // namespace

KernelList rope_kernels() { return kKernels; }

}  // namespace tern::cuda
