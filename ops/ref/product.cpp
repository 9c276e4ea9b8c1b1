#include "ops/ref/product.h"

#include <vector>

namespace tern::ops::ref {
namespace {

// [rows, columns] in row-major order from a matrix that may be stored transposed, rounded to `compute`.
std::vector<double> rounded(const double* from, std::int64_t rows, std::int64_t columns, bool transposed,
                            tern_dtype compute) {
  std::vector<double> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(r * columns + c)] =
          round_to(compute, transposed ? from[c * rows + r] : from[r * columns + c]);
    }
  }
  return out;
}

}  // namespace

void Product::run(const double* a, const double* b, const double* bias, Output& out, std::int64_t begin) const {
  const std::vector<double> left = rounded(a, m, k, transpose_a, compute);
  const std::vector<double> right = rounded(b, k, n, transpose_b, compute);
  const auto width = static_cast<std::size_t>(n);
  std::vector<double> sum(width);
  std::vector<double> magnitude(width);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      sum[j] = bias != nullptr ? bias[j] : 0.0;
      magnitude[j] = std::fabs(sum[j]);
    }
    for (std::int64_t l = 0; l < k; ++l) {
      const double x = alpha * left[static_cast<std::size_t>(i * k + l)];
      const double* row = right.data() + l * n;
      for (std::size_t j = 0; j < width; ++j) {
        sum[j] += x * row[j];
        magnitude[j] += std::fabs(x * row[j]);
      }
    }
    for (std::size_t j = 0; j < width; ++j)
      out.add(begin + i * n + static_cast<std::int64_t>(j), sum[j],
              {.roundings = magnitude[j], .terms = k + (alpha == 1.0 ? 1 : 2)});
  }
}

}  // namespace tern::ops::ref
