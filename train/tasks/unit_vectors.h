// Vectors scaled to length 1, and gradients through that.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tern::train {

struct UnitVectors {
  // Of the first `dimension` numbers of each row of `rows`, [texts, row_width].
  UnitVectors(std::span<const double> rows, std::size_t row_width, std::size_t dimension);

  [[nodiscard]] std::size_t texts() const { return lengths.size(); }
  [[nodiscard]] std::span<const double> text(std::size_t index) const {
    return std::span(values).subspan(index * width, width);
  }
  [[nodiscard]] double product(std::size_t a, std::size_t b) const;
  // Adds what `slope`, a loss's derivative by the product of a and b, is by both; `gradient` is [texts, width].
  void add_product_gradient(std::size_t a, std::size_t b, double slope, std::vector<double>& gradient) const;
  // Adds `weight` times the gradient by the rows, [texts, row_width], of one by the unit vectors.
  void add_gradient(const std::vector<double>& by_unit, double weight, std::vector<double>& by_rows) const;

  std::size_t row_width = 0;
  std::size_t width = 0;
  std::vector<double> values;   // [texts, width]
  std::vector<double> lengths;  // [texts] of the rows, at least 1e-12, as PyTorch's normalize has it
};

}  // namespace tern::train
