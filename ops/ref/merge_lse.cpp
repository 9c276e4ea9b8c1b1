#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void merge_lse(Call& call) {
  const Tensor& row_max = input(call, TERN_MERGE_LSE_ROW_MAX);
  const Tensor& row_sum = input(call, TERN_MERGE_LSE_ROW_SUM);
  Output lse(call, TERN_MERGE_LSE_LSE);
  const std::int64_t shards = row_max.size(0);
  const std::int64_t rows = row_max.size(1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = [&](std::int64_t s) { return static_cast<std::size_t>(s * rows + r); };
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t s = 0; s < shards; ++s) {
      if (row_sum.real[at(s)] != 0.0) largest = std::max(largest, row_max.real[at(s)]);
    }
    double sum = 0.0;
    double error = 0.0;
    for (std::int64_t s = 0; s < shards; ++s) {
      if (row_sum.real[at(s)] == 0.0) continue;
      const double term = row_sum.real[at(s)] * std::exp(row_max.real[at(s)] - largest);
      sum += term;
      error += term * (8.0 + std::fabs(row_max.real[at(s)] - largest));
    }
    if (sum == 0.0) continue;
    const double value = largest + std::log(sum);
    lse.add(r, value,
            {.roundings = std::fabs(value) + std::fabs(largest) + 4.0 * std::fabs(std::log(sum)) + error / sum,
             .terms = shards});
  }
}

}  // namespace tern::ops::ref
