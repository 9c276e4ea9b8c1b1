// Rows of a tensor and what dropout leaves of them, by tiles: the keys and the mask of ops/dropout.h.
#pragma once

#include <algorithm>

#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {

class DroppedRows {
 public:
  // The arguments' numbers in the op: x [rows, width], keys and mask, which may be absent.
  DroppedRows(const KernelArgs& args, int x, int keys, int mask, float rate, std::int32_t site)
      : x_(args[x]),
        keys_(args[keys]),
        mask_(args[mask]),
        rate_(rate),
        site_(static_cast<std::uint32_t>(site)),
        factor_(static_cast<float>(1.0 / (1.0 - static_cast<double>(rate)))),
        io_(args),
        math_(tile_math(args.target)) {}

  [[nodiscard]] bool drops() const { return keys_.present(); }

  // Which of n elements from `first` on are kept; `first` is a multiple of 4, and `keep` has room for 3 more.
  void find_kept(std::int64_t row, std::int64_t first, std::int64_t n, std::uint8_t* keep) const {
    if (mask_.present()) {
      const auto* from = mask_.data<const std::uint8_t>() + row * mask_.stride(0) + first * mask_.stride(1);
      for (std::int64_t i = 0; i < n; ++i) keep[i] = from[i * mask_.stride(1)];
      return;
    }
    const auto key = static_cast<std::uint64_t>(keys_.data<const std::int64_t>()[row * keys_.stride(0)]);
    math_.philox_keep(key, static_cast<std::uint32_t>(first / 4), site_, rate_, static_cast<std::size_t>((n + 3) / 4),
                      keep);
  }
  // values where they are kept, scaled, else 0; `out` may be `values`.
  void drop(const std::uint8_t* keep, const float* values, std::int64_t n, float* out) const {
    math_.select(keep, values, factor_, static_cast<std::size_t>(n), out);
  }
  // n elements of x, where they lie or in `buffer`.
  const float* load(std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) const {
    return io_.load(x_, row * x_.stride(0) + first * x_.stride(1), x_.stride(1), n, buffer);
  }

 private:
  const TensorView& x_;
  const TensorView& keys_;
  const TensorView& mask_;
  float rate_;
  std::uint32_t site_;
  float factor_;
  TileIo io_;
  const TileMath& math_;
};

}  // namespace tern::cpu
