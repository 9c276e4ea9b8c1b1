// Products with a narrow side, as cu/narrow.cu has them: what matmul and an adapter's products have in common. All in
// fp32.
#pragma once

#include "backends/cuda/dropping.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {

inline constexpr std::int64_t kMostRank = 64;
inline constexpr std::int64_t kRankGroup = 8;  // RANKS of cu/narrow.cu

// A matrix where it lies: [rows, columns], strides in elements.
struct Matrix {
  DeviceTensor tensor;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row = 0, column = 0;

  [[nodiscard]] Matrix turned() const { return {tensor, columns, rows, column, row}; }
};
// Of a tensor of rank 2.
[[nodiscard]] Matrix matrix_of(const TensorView& view);

// Queues these products on a launch. Functions: narrow_functions(), from `first` on; workspace: narrow_bytes from
// `begin`.
class NarrowProducts {
 public:
  NarrowProducts(const Launch& launch, std::size_t first, Place begin) : launch_(launch), first_(first), next_(begin) {}

  // out [rows, rank] (+)= alpha dropout(large [rows, width]) narrow [rank, width]^T.
  void shrink(const Matrix& large, const Matrix& narrow, const Matrix& out, float alpha, const Dropping& drop = {});
  // large [rows, width] (+)= alpha dropout(left [rows, rank] right [rank, width]).
  void expand(const Matrix& left, const Matrix& right, const Matrix& large, float alpha, const Dropping& drop = {});
  // out [rank, width] (+)= alpha left [rows, rank]^T dropout(large [rows, width]).
  void reduce(const Matrix& left, const Matrix& large, const Matrix& out, float alpha, const Dropping& drop = {});

 private:
  // The matrix as fp32 with zeros around it.
  Place lay(const Matrix& matrix, std::int64_t rows, std::int64_t columns);
  const Launch& launch_;
  std::size_t first_;
  Place next_;
};

[[nodiscard]] Functions narrow_functions();
// Of one product of these sizes, whichever.
[[nodiscard]] std::uint64_t narrow_bytes(std::int64_t rows, std::int64_t width, std::int64_t rank, const Facts& facts);

}  // namespace tern::cuda
