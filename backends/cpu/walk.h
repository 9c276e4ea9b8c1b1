// Going through tensors of one shape and any strides, tile by tile along the innermost dimension.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/tile_math.h"

namespace tern::cpu {

inline constexpr std::int64_t kTile = 1024;          // elements: a few fp32 tiles stay in the first cache
inline constexpr std::int64_t kParallelFrom = 8192;  // elements that are worth another thread
using TileBuffer = std::array<float, kTile>;

// N tensors of one shape, neighbouring dimensions joined where they are contiguous in all. Absent tensors are ignored.
template <int N>
struct Walk {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t inner_stride[N] = {};

  [[nodiscard]] std::int64_t tiles() const { return (inner + kTile - 1) / kTile; }
  [[nodiscard]] std::int64_t units() const { return outer * tiles(); }

  // fn(offsets[N] in elements, n) for units [begin, end); a unit is a tile of at most kTile elements.
  template <typename Fn>
  void visit(std::int64_t begin, std::int64_t end, Fn&& fn) const {
    const std::int64_t per_row = tiles();
    for (std::int64_t unit = begin; unit < end; ++unit) {
      std::int64_t row = unit / per_row;
      const std::int64_t first = unit % per_row * kTile;
      std::int64_t at[N];
      for (int t = 0; t < N; ++t) at[t] = first * inner_stride[t];
      for (int d = rank - 1; d >= 0; --d) {
        const std::int64_t index = row % shape[d];
        row /= shape[d];
        for (int t = 0; t < N; ++t) at[t] += index * strides[t][d];
      }
      fn(at, inner - first < kTile ? inner - first : kTile);
    }
  }

  int rank = 0;  // of the outer part
  std::int64_t shape[TERN_MAX_RANK] = {};
  std::int64_t strides[N][TERN_MAX_RANK] = {};
};

template <int N>
Walk<N> make_walk(const std::array<const TensorView*, N>& views) {
  const TensorView* lead = nullptr;
  for (const auto* view : views) {
    if (lead == nullptr && view->present()) lead = view;
  }
  std::int64_t shape[TERN_MAX_RANK];
  std::int64_t strides[N][TERN_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < lead->desc.rank; ++d) {
    const std::int64_t size = lead->dim(d);
    if (size == 1) continue;
    bool joins = rank > 0;
    for (int t = 0; t < N; ++t) {
      const std::int64_t stride = views[t]->present() ? views[t]->stride(d) : 0;
      joins = joins && strides[t][rank - 1] == stride * size;
    }
    const int at = joins ? rank - 1 : rank++;
    shape[at] = joins ? shape[at] * size : size;
    for (int t = 0; t < N; ++t) strides[t][at] = views[t]->present() ? views[t]->stride(d) : 0;
  }
  Walk<N> walk;
  if (rank == 0) {  // one element
    for (int t = 0; t < N; ++t) walk.inner_stride[t] = 1;
    return walk;
  }
  walk.inner = shape[rank - 1];
  walk.rank = rank - 1;
  for (int t = 0; t < N; ++t) walk.inner_stride[t] = strides[t][rank - 1];
  for (int d = 0; d < walk.rank; ++d) {
    walk.shape[d] = shape[d];
    walk.outer *= shape[d];
    for (int t = 0; t < N; ++t) walk.strides[t][d] = strides[t][d];
  }
  return walk;
}

// Visits all units over the pool. fn(offsets, n) must treat elements alone.
template <int N, typename Fn>
void for_tiles(ThreadPool& pool, const Walk<N>& walk, Fn&& fn) {
  const std::int64_t unit = walk.inner < kTile ? (walk.inner > 0 ? walk.inner : 1) : kTile;
  pool.parallel_for(walk.units(), (kParallelFrom + unit - 1) / unit,
                    [&](std::int64_t begin, std::int64_t end, int) { walk.visit(begin, end, fn); });
}

// Conversions between a float tensor's storage and fp32 tiles.
class TileIo {
 public:
  explicit TileIo(const KernelArgs& args) : kernels_(gemm_kernels(args.target)), math_(tile_math(args.target)) {}

  // n elements from element `at` on, `stride` apart: where they lie if they are contiguous fp32, else in `buffer`.
  const float* load(const TensorView& view, std::int64_t at, std::int64_t stride, std::int64_t n, float* buffer) const;
  // Where to compute n elements: in place where load would read in place and nothing is added, else `buffer`.
  static float* place(const TensorView& view, std::int64_t at, std::int64_t stride, bool accumulate, float* buffer);
  // Puts values that lie outside the tensor into it, or adds them.
  void store(const TensorView& view, std::int64_t at, std::int64_t stride, std::int64_t n, bool accumulate,
             float* values) const;

 private:
  const GemmKernels& kernels_;
  const TileMath& math_;
};

// Tensors that a kernel reads and writes: fn gets a tile of each, where it lies if it is contiguous fp32, else a copy
// that is put back. `at` and `strides`: theirs, as Walk gives them. An absent one's tile is null.
template <std::size_t N, typename Fn>
void change_tiles(const TileIo& io, const std::array<const TensorView*, N>& states, const std::int64_t* at,
                  const std::int64_t* strides, std::int64_t n, Fn&& fn) {
  alignas(64) TileBuffer buffers[N];
  std::array<float*, N> tiles = {};
  for (std::size_t s = 0; s < N; ++s) {
    if (!states[s]->present()) continue;
    tiles[s] = TileIo::place(*states[s], at[s], strides[s], false, buffers[s].data());
    io.load(*states[s], at[s], strides[s], n, buffers[s].data());
  }
  fn(tiles);
  for (std::size_t s = 0; s < N; ++s) {
    if (tiles[s] != nullptr) io.store(*states[s], at[s], strides[s], n, false, tiles[s]);
  }
}

}  // namespace tern::cpu
