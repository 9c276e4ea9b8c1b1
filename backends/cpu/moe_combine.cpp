#include <algorithm>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

// Reads places and weights, of which the latter may be absent.
struct Choices {
  const TensorView& places;
  const TensorView& weights;
  const TensorView& x;  // [rows, top_k, width] in order of experts
  const char* what;

  // Where the row of x that is choice i of row r begins.
  [[nodiscard]] std::int64_t at(std::int64_t r, std::int64_t i) const {
    const std::int64_t place = places.data<const std::int32_t>()[r * places.stride(0) + i * places.stride(1)];
    require_index(place, x.dim(0) * x.dim(1), what);
    return place / x.dim(1) * x.stride(0) + place % x.dim(1) * x.stride(1);
  }
  [[nodiscard]] float weight(std::int64_t r, std::int64_t i) const {
    return weights.present() ? weights.data<const float>()[r * weights.stride(0) + i * weights.stride(1)] : 1.0F;
  }
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_MOE_COMBINE_X);
  return Check(desc, reason)
      .floats({TERN_MOE_COMBINE_X, TERN_MOE_COMBINE_Y})
      .dtype(TERN_MOE_COMBINE_PLACES, TERN_I32)
      .dtype(TERN_MOE_COMBINE_WEIGHTS, TERN_F32)
      .rank(TERN_MOE_COMBINE_X, 3)
      .rank(TERN_MOE_COMBINE_Y, 2)
      .rank(TERN_MOE_COMBINE_PLACES, 2)
      .dim(TERN_MOE_COMBINE_Y, 0, x.shape[0])
      .dim(TERN_MOE_COMBINE_Y, 1, x.shape[2])
      .dim(TERN_MOE_COMBINE_PLACES, 0, x.shape[0])
      .dim(TERN_MOE_COMBINE_PLACES, 1, x.shape[1])
      .same_shape({TERN_MOE_COMBINE_PLACES, TERN_MOE_COMBINE_WEIGHTS})
      .ok();
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MOE_COMBINE_X], &y = args[TERN_MOE_COMBINE_Y];
  const Choices choices{args[TERN_MOE_COMBINE_PLACES], args[TERN_MOE_COMBINE_WEIGHTS], x, "moe_combine: places"};
  const bool accumulate = args.accumulates(TERN_MOE_COMBINE_Y);
  const std::int64_t top_k = x.dim(1), width = x.dim(2);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, top_k * width));
  args.pool->parallel_for(x.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer, sum;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        std::fill_n(sum.data(), n, 0.0F);
        for (std::int64_t i = 0; i < top_k; ++i) {
          const float* px = io.load(x, choices.at(r, i) + first * x.stride(2), x.stride(2), n, buffer.data());
          math.axpby(choices.weight(r, i), px, 1.0F, sum.data(), static_cast<std::size_t>(n), sum.data());
        }
        io.store(y, r * y.stride(0) + first * y.stride(1), y.stride(1), n, accumulate, sum.data());
      }
    }
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& dx = desc.arg(TERN_MOE_COMBINE_BACKWARD_DX);
  return Check(desc, reason)
      .floats({TERN_MOE_COMBINE_BACKWARD_DY, TERN_MOE_COMBINE_BACKWARD_X, TERN_MOE_COMBINE_BACKWARD_DX})
      .dtype(TERN_MOE_COMBINE_BACKWARD_PLACES, TERN_I32)
      .dtype(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, TERN_F32)
      .dtype(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS, TERN_F32)
      .rank(TERN_MOE_COMBINE_BACKWARD_DX, 3)
      .rank(TERN_MOE_COMBINE_BACKWARD_DY, 2)
      .rank(TERN_MOE_COMBINE_BACKWARD_PLACES, 2)
      .dim(TERN_MOE_COMBINE_BACKWARD_DY, 0, dx.shape[0])
      .dim(TERN_MOE_COMBINE_BACKWARD_DY, 1, dx.shape[2])
      .dim(TERN_MOE_COMBINE_BACKWARD_PLACES, 0, dx.shape[0])
      .dim(TERN_MOE_COMBINE_BACKWARD_PLACES, 1, dx.shape[1])
      .same_shape({TERN_MOE_COMBINE_BACKWARD_X, TERN_MOE_COMBINE_BACKWARD_DX})
      .same_shape(
          {TERN_MOE_COMBINE_BACKWARD_PLACES, TERN_MOE_COMBINE_BACKWARD_WEIGHTS, TERN_MOE_COMBINE_BACKWARD_DWEIGHTS})
      .ok();
}

void run_backward(const KernelArgs& args) {
  const TensorView &dy = args[TERN_MOE_COMBINE_BACKWARD_DY], &x = args[TERN_MOE_COMBINE_BACKWARD_X];
  const TensorView &dx = args[TERN_MOE_COMBINE_BACKWARD_DX], &dweights = args[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS];
  const TensorView &places = args[TERN_MOE_COMBINE_BACKWARD_PLACES], &weights = args[TERN_MOE_COMBINE_BACKWARD_WEIGHTS];
  const Choices choices{places, weights, dx, "moe_combine_backward: places"};
  const Choices of_x{places, weights, x, "moe_combine_backward: places"};
  const std::int64_t top_k = dx.dim(1), width = dx.dim(2);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, top_k * width));
  args.pool->parallel_for(dx.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer upstream, buffer, out;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t i = 0; i < top_k; ++i) {
        float dot = 0.0F;
        for (std::int64_t first = 0; first < width; first += kTile) {
          const auto n = static_cast<std::size_t>(std::min(kTile, width - first));
          const auto count = static_cast<std::int64_t>(n);
          const float* py = io.load(dy, r * dy.stride(0) + first * dy.stride(1), dy.stride(1), count, upstream.data());
          math.scale(choices.weight(r, i), py, n, out.data());
          io.store(dx, choices.at(r, i) + first * dx.stride(2), dx.stride(2), count, false, out.data());
          if (!dweights.present()) continue;
          const float* px = io.load(x, of_x.at(r, i) + first * x.stride(2), x.stride(2), count, buffer.data());
          dot += math.dot(py, px, n);
        }
        if (dweights.present()) dweights.data<float>()[r * dweights.stride(0) + i * dweights.stride(1)] = dot;
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_MOE_COMBINE, "moe_combine", supports, nullptr, nullptr, run},
    {TERN_OP_MOE_COMBINE_BACKWARD, "moe_combine_backward", supports_backward, nullptr, nullptr, run_backward}};

}  // namespace

KernelList moe_combine_kernels() { return kKernels; }

}  // namespace tern::cpu
