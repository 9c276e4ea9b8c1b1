// Su et al., "RoFormer", 2021; with a norm of each head before it: Qwen3's q and k.
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

// The arguments that rope, qk_norm_rope and its backward have in common.
struct Tables {
  const TensorView& positions;
  const TensorView& cos;
  const TensorView& sin;
  float sign;  // of sin: -1 rotates back
  bool interleaved;

  [[nodiscard]] bool turn() const { return positions.present(); }
  [[nodiscard]] std::int64_t half() const { return cos.dim(1); }
};

void check_tables(Check& check, const PlanDesc& desc, int x, int positions, int cos, int sin) {
  const auto& shape = desc.arg(x).shape;
  check.rank(x, 3).dtype(positions, TERN_I32).dim(positions, 0, shape[0]);
  check.dtype(cos, TERN_F32).dtype(sin, TERN_F32).rank(cos, 2).same_shape({cos, sin});
  const bool turns = desc.present(positions);
  check.that(turns == desc.present(cos) && turns == desc.present(sin), "positions come with cos and sin");
  check.that(!turns || 2 * desc.arg(cos).shape[1] <= shape[2], "cos has more features than half of a head");
}

// fp32 rows of cos and sin at a position: where they lie, or in the two buffers.
struct Angles {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

Angles angles(const TileIo& io, const Tables& tables, std::int64_t row, float* cos, float* sin) {
  if (!tables.turn()) return {};
  const std::int64_t position = tables.positions.data<const std::int32_t>()[row * tables.positions.stride(0)];
  require_index(position, tables.cos.dim(0), "rope: positions");
  return {io.load(tables.cos, position * tables.cos.stride(0), tables.cos.stride(1), tables.half(), cos),
          io.load(tables.sin, position * tables.sin.stride(0), tables.sin.stride(1), tables.half(), sin)};
}

// `out` may be `x`.
void rotate_head(const TileMath& math, const Tables& tables, const Angles& angle, const float* x, std::int64_t head_dim,
                 float* out) {
  if (!tables.turn()) {
    if (out != x) std::copy(x, x + head_dim, out);
    return;
  }
  const std::int64_t rotary = 2 * tables.half();
  math.rotate(x, angle.cos, angle.sin, tables.sign, static_cast<std::size_t>(tables.half()), tables.interleaved, out);
  if (out != x) std::copy(x + rotary, x + head_dim, out + rotary);
}

std::int64_t head_at(const TensorView& view, std::int64_t row, std::int64_t head) {
  return row * view.stride(0) + head * view.stride(1);
}

std::int64_t rows_grain(const TensorView& x) {
  return std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, x.dim(1) * x.dim(2)));
}

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.floats({TERN_ROPE_X, TERN_ROPE_Y}).same_shape({TERN_ROPE_X, TERN_ROPE_Y});
  check_tables(check, desc, TERN_ROPE_X, TERN_ROPE_POSITIONS, TERN_ROPE_COS, TERN_ROPE_SIN);
  return check.ok();
}

// For each thread: head, rotated head, cos, sin.
std::uint64_t workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_ROPE_X).shape[2], std::int64_t{4} * desc.num_threads);
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_rope_attrs>();
  const TensorView &x = args[TERN_ROPE_X], &y = args[TERN_ROPE_Y];
  const Tables tables{args[TERN_ROPE_POSITIONS], args[TERN_ROPE_COS], args[TERN_ROPE_SIN],
                      attrs.inverse != 0 ? -1.0F : 1.0F, attrs.interleaved != 0};
  const std::int64_t head_dim = x.dim(2);
  const bool accumulate = args.accumulates(TERN_ROPE_Y);
  const TileIo io(args);
  args.pool->parallel_for(x.dim(0), rows_grain(x), [&](std::int64_t begin, std::int64_t end, int thread) {
    const auto mine = [&](int i) { return float_row(args, head_dim, std::int64_t{4} * thread + i); };
    for (std::int64_t row = begin; row < end; ++row) {
      const Angles angle = angles(io, tables, row, mine(2), mine(3));
      for (std::int64_t head = 0; head < x.dim(1); ++head) {
        const float* px = io.load(x, head_at(x, row, head), x.stride(2), head_dim, mine(0));
        float* py = TileIo::place(y, head_at(y, row, head), y.stride(2), accumulate, mine(1));
        rotate_head(tile_math(args.target), tables, angle, px, head_dim, py);
        io.store(y, head_at(y, row, head), y.stride(2), head_dim, accumulate, py);
      }
    }
  });
}

bool supports_norm(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_WEIGHT, TERN_QK_NORM_ROPE_Y});
  check.same_shape({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_Y});
  check_tables(check, desc, TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_POSITIONS, TERN_QK_NORM_ROPE_COS,
               TERN_QK_NORM_ROPE_SIN);
  check.dim(TERN_QK_NORM_ROPE_WEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_RSTD, TERN_F32).rank(TERN_QK_NORM_ROPE_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_RSTD, 1, x.shape[1]);
  return check.ok();
}

std::uint64_t workspace_norm(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_QK_NORM_ROPE_X).shape[2], 1 + std::int64_t{4} * desc.num_threads);
}

void run_norm(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_qk_norm_rope_attrs>();
  const TensorView &x = args[TERN_QK_NORM_ROPE_X], &y = args[TERN_QK_NORM_ROPE_Y], &rstd = args[TERN_QK_NORM_ROPE_RSTD];
  const Tables tables{args[TERN_QK_NORM_ROPE_POSITIONS], args[TERN_QK_NORM_ROPE_COS], args[TERN_QK_NORM_ROPE_SIN], 1.0F,
                      attrs.interleaved != 0};
  const std::int64_t head_dim = x.dim(2);
  const TileIo io(args);
  const float* weight = offset_weight(args, io, args[TERN_QK_NORM_ROPE_WEIGHT], attrs.weight_offset, head_dim);
  args.pool->parallel_for(x.dim(0), rows_grain(x), [&](std::int64_t begin, std::int64_t end, int thread) {
    const auto mine = [&](int i) { return float_row(args, head_dim, 1 + std::int64_t{4} * thread + i); };
    for (std::int64_t row = begin; row < end; ++row) {
      const Angles angle = angles(io, tables, row, mine(2), mine(3));
      for (std::int64_t head = 0; head < x.dim(1); ++head) {
        const float* px = io.load(x, head_at(x, row, head), x.stride(2), head_dim, mine(0));
        const float scale = reciprocal_rms(tile_math(args.target), px, head_dim, attrs.eps);
        if (rstd.present()) rstd.data<float>()[head_at(rstd, row, head)] = scale;
        float* normal = mine(1);
        tile_math(args.target).norm(px, scale, weight, static_cast<std::size_t>(head_dim), normal);
        rotate_head(tile_math(args.target), tables, angle, normal, head_dim, normal);
        io.store(y, head_at(y, row, head), y.stride(2), head_dim, false, normal);
      }
    }
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT,
                TERN_QK_NORM_ROPE_BACKWARD_DX});
  check.same_shape({TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_DX});
  check_tables(check, desc, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS,
               TERN_QK_NORM_ROPE_BACKWARD_COS, TERN_QK_NORM_ROPE_BACKWARD_SIN);
  check.that(desc.present(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT) || !desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT),
             "dweight comes with a weight");
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, 0, x.shape[2]).dim(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, TERN_F32).dtype(TERN_QK_NORM_ROPE_BACKWARD_RSTD, TERN_F32);
  check.rank(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 1, x.shape[1]);
  return check.ok();
}

// The weight; for each thread: dy, x, cos, sin, dx; dweight's sum over each block of rows.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  const std::int64_t sums = desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT) ? norm_blocks(x.shape[0]) : 0;
  return float_rows(x.shape[2], 1 + std::int64_t{5} * desc.num_threads + sums);
}

void run_backward(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_qk_norm_rope_backward_attrs>();
  const TensorView &dy = args[TERN_QK_NORM_ROPE_BACKWARD_DY], &x = args[TERN_QK_NORM_ROPE_BACKWARD_X];
  const TensorView &rstd = args[TERN_QK_NORM_ROPE_BACKWARD_RSTD], &dx = args[TERN_QK_NORM_ROPE_BACKWARD_DX];
  const TensorView& dweight = args[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT];
  const Tables tables{args[TERN_QK_NORM_ROPE_BACKWARD_POSITIONS], args[TERN_QK_NORM_ROPE_BACKWARD_COS],
                      args[TERN_QK_NORM_ROPE_BACKWARD_SIN], -1.0F, attrs.interleaved != 0};
  const std::int64_t rows = x.dim(0), head_dim = x.dim(2), blocks = norm_blocks(rows);
  const auto count = static_cast<std::size_t>(head_dim);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const float* weight = offset_weight(args, io, args[TERN_QK_NORM_ROPE_BACKWARD_WEIGHT], attrs.weight_offset, head_dim);
  const std::int64_t first_sum = 1 + std::int64_t{5} * args.pool->num_threads();
  args.pool->parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    const auto mine = [&](int i) { return float_row(args, head_dim, 1 + std::int64_t{5} * thread + i); };
    for (std::int64_t unit = begin * kNormRows; unit < std::min(rows, end * kNormRows); ++unit) {
      float* sums = dweight.present() ? float_row(args, head_dim, first_sum + unit / kNormRows) : nullptr;
      if (sums != nullptr && unit % kNormRows == 0) std::fill_n(sums, head_dim, 0.0F);
      const Angles angle = angles(io, tables, unit, mine(2), mine(3));
      for (std::int64_t head = 0; head < x.dim(1); ++head) {
        const float* pdy = io.load(dy, head_at(dy, unit, head), dy.stride(2), head_dim, mine(0));
        float* turned = mine(0);
        rotate_head(tile_math(args.target), tables, angle, pdy, head_dim, turned);
        const float* px = io.load(x, head_at(x, unit, head), x.stride(2), head_dim, mine(1));
        const float scale = rstd.data<const float>()[head_at(rstd, unit, head)];
        if (sums != nullptr) math.mul_add(scale, turned, px, count, sums);
        const float mean = math.dot3(turned, weight, px, count) / static_cast<float>(head_dim);
        float* out = TileIo::place(dx, head_at(dx, unit, head), dx.stride(2), false, mine(4));
        math.norm_backward(turned, weight, px, scale, scale * scale * mean, nullptr, count, out);
        io.store(dx, head_at(dx, unit, head), dx.stride(2), head_dim, false, out);
      }
    }
  });
  if (dweight.present()) {
    add_blocks(args, float_row(args, head_dim, first_sum), blocks, dweight,
               args.accumulates(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT));
  }
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ROPE, "rope", supports, workspace, nullptr, run},
    {TERN_OP_QK_NORM_ROPE, "qk_norm_rope", supports_norm, workspace_norm, nullptr, run_norm},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, "qk_norm_rope_backward", supports_backward, workspace_backward, nullptr,
     run_backward}};

}  // namespace

KernelList rope_kernels() { return kKernels; }

}  // namespace tern::cpu
