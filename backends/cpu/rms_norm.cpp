// Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
#include <cmath>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_RMS_NORM_X);
  return Check(desc, reason)
      .floats({TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_WEIGHT, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM})
      .dtype(TERN_RMS_NORM_RSTD, TERN_F32)
      .rank(TERN_RMS_NORM_X, 2)
      .same_shape({TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM})
      .dim(TERN_RMS_NORM_WEIGHT, 0, x.shape[1])
      .dim(TERN_RMS_NORM_RSTD, 0, x.shape[0])
      .that(desc.present(TERN_RMS_NORM_SUM) == desc.present(TERN_RMS_NORM_RESIDUAL),
            "sum must be present iff residual is")
      .ok();
}

// The weight with its offset, and a row of s for each thread.
std::uint64_t workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_RMS_NORM_X).shape[1], 1 + desc.num_threads);
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_rms_norm_attrs>();
  const TensorView &x = args[TERN_RMS_NORM_X], &y = args[TERN_RMS_NORM_Y], &rstd = args[TERN_RMS_NORM_RSTD];
  const std::int64_t width = x.dim(1);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const float* weight = offset_weight(args, io, args[TERN_RMS_NORM_WEIGHT], attrs.weight_offset, width);
  args.pool->parallel_for(x.dim(0), norm_grain(width), [&](std::int64_t begin, std::int64_t end, int thread) {
    float* row = float_row(args, width, 1 + thread);
    alignas(64) TileBuffer by;
    for (std::int64_t r = begin; r < end; ++r) {
      const float* s = summed_row(args, io, {x, args[TERN_RMS_NORM_RESIDUAL], args[TERN_RMS_NORM_SUM]}, r, row);
      const float scale = reciprocal_rms(math, s, width, attrs.eps);
      if (rstd.present()) rstd.data<float>()[r * rstd.stride(0)] = scale;
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        const std::int64_t at = r * y.stride(0) + first * y.stride(1);
        float* py = TileIo::place(y, at, y.stride(1), false, by.data());
        math.norm(s + first, scale, weight + first, static_cast<std::size_t>(n), py);
        io.store(y, at, y.stride(1), n, false, py);
      }
    }
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_RMS_NORM_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_WEIGHT,
               TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX})
      .dtype(TERN_RMS_NORM_BACKWARD_RSTD, TERN_F32)
      .dtype(TERN_RMS_NORM_BACKWARD_DWEIGHT, TERN_F32)
      .rank(TERN_RMS_NORM_BACKWARD_X, 2)
      .same_shape(
          {TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX})
      .dim(TERN_RMS_NORM_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_RMS_NORM_BACKWARD_RSTD, 0, x.shape[0])
      .dim(TERN_RMS_NORM_BACKWARD_DWEIGHT, 0, x.shape[1])
      .ok();
}

// The weight with its offset, four rows for each thread, and dweight's sum over each block of rows.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_RMS_NORM_BACKWARD_X);
  const std::int64_t sums = desc.present(TERN_RMS_NORM_BACKWARD_DWEIGHT) ? norm_blocks(x.shape[0]) : 0;
  return float_rows(x.shape[1], 1 + 4 * desc.num_threads + sums);
}

void run_backward(const KernelArgs& args) {
  const TensorView &dy = args[TERN_RMS_NORM_BACKWARD_DY], &x = args[TERN_RMS_NORM_BACKWARD_X];
  const TensorView &rstd = args[TERN_RMS_NORM_BACKWARD_RSTD], &dsum = args[TERN_RMS_NORM_BACKWARD_DSUM];
  const TensorView &dx = args[TERN_RMS_NORM_BACKWARD_DX], &dweight = args[TERN_RMS_NORM_BACKWARD_DWEIGHT];
  const std::int64_t rows = x.dim(0), width = x.dim(1), blocks = norm_blocks(rows);
  const auto count = static_cast<std::size_t>(width);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const float* weight = offset_weight(args, io, args[TERN_RMS_NORM_BACKWARD_WEIGHT],
                                      args.attr<tern_rms_norm_backward_attrs>().weight_offset, width);
  const std::int64_t first_sum = 1 + 4 * args.pool->num_threads();
  args.pool->parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* rows_of_mine[4];
    for (int i = 0; i < 4; ++i) rows_of_mine[i] = float_row(args, width, 1 + 4 * thread + i);
    for (std::int64_t block = begin; block < end; ++block) {
      float* sums = dweight.present() ? float_row(args, width, first_sum + block) : nullptr;
      if (sums != nullptr) std::fill_n(sums, width, 0.0F);
      for (std::int64_t r = block * kNormRows; r < std::min(rows, (block + 1) * kNormRows); ++r) {
        const float* pdy = io.load(dy, r * dy.stride(0), dy.stride(1), width, rows_of_mine[0]);
        const float* px = io.load(x, r * x.stride(0), x.stride(1), width, rows_of_mine[1]);
        const float* carried =
            dsum.present() ? io.load(dsum, r * dsum.stride(0), dsum.stride(1), width, rows_of_mine[2]) : nullptr;
        const float scale = rstd.data<const float>()[r * rstd.stride(0)];
        if (sums != nullptr) math.mul_add(scale, pdy, px, count, sums);
        const float mean = math.dot3(pdy, weight, px, count) / static_cast<float>(width);
        const std::int64_t at = r * dx.stride(0);
        float* out = TileIo::place(dx, at, dx.stride(1), false, rows_of_mine[3]);
        math.norm_backward(pdy, weight, px, scale, scale * scale * mean, carried, count, out);
        io.store(dx, at, dx.stride(1), width, false, out);
      }
    }
  });
  if (dweight.present()) {
    add_blocks(args, float_row(args, width, first_sum), blocks, dweight,
               args.accumulates(TERN_RMS_NORM_BACKWARD_DWEIGHT));
  }
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_RMS_NORM, "rms_norm", supports, workspace, nullptr, run},
    {TERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward", supports_backward, workspace_backward, nullptr, run_backward}};

}  // namespace

KernelList rms_norm_kernels() { return kKernels; }

}  // namespace tern::cpu
