// The leading singular vectors of a gradient: what GaLore projects upon.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tern::train {

enum class Side { left, right };  // U [rows, rank] or V^T [rank, columns] of U S V^T

// Orthonormal vectors of the `rank` largest singular values, in row-major order, each with its largest component above 0
// on the smaller side of the matrix: LAPACK's signs differ from machine to machine. Where fewer singular values than that
// aren't 0, those of the longer side are 0. In double precision, through the smaller Gram matrix.
[[nodiscard]] std::vector<float> singular_vectors(std::span<const float> matrix, std::int64_t rows,
                                                  std::int64_t columns, Side side, std::int64_t rank);

}  // namespace tern::train
