#include "train/tasks/unit_vectors.h"

#include <algorithm>
#include <cmath>

namespace tern::train {

UnitVectors::UnitVectors(std::span<const double> rows, std::size_t row_width, std::size_t dimension)
    : row_width(row_width), width(dimension) {
  const std::size_t texts = row_width > 0 ? rows.size() / row_width : 0;
  values.reserve(texts * width);
  for (std::size_t i = 0; i < texts; ++i) {
    const auto row = rows.subspan(i * row_width, width);
    double squares = 0;
    for (const double number : row) squares += number * number;
    lengths.push_back(std::max(std::sqrt(squares), 1e-12));
    for (const double number : row) values.push_back(number / lengths.back());
  }
}

double UnitVectors::product(std::size_t a, std::size_t b) const {
  double sum = 0;
  for (std::size_t c = 0; c < width; ++c) sum += values[a * width + c] * values[b * width + c];
  return sum;
}

void UnitVectors::add_product_gradient(std::size_t a, std::size_t b, double slope,
                                       std::vector<double>& gradient) const {
  for (std::size_t c = 0; c < width; ++c) {
    gradient[a * width + c] += slope * values[b * width + c];
    gradient[b * width + c] += slope * values[a * width + c];
  }
}

// d(x / |x|): what points along the vector changes its length alone.
void UnitVectors::add_gradient(const std::vector<double>& by_unit, double weight, std::vector<double>& by_rows) const {
  for (std::size_t i = 0; i < texts(); ++i) {
    double along = 0;
    for (std::size_t c = 0; c < width; ++c) along += by_unit[i * width + c] * values[i * width + c];
    for (std::size_t c = 0; c < width; ++c) {
      by_rows[i * row_width + c] += weight * (by_unit[i * width + c] - along * values[i * width + c]) / lengths[i];
    }
  }
}

}  // namespace tern::train
