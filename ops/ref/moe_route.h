// One row's choice of experts, for the oracle and for cases that fp32 can decide.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tern/accel_ops.h"

namespace tern::ops::ref {

struct RouteRow {
  std::vector<double> score;         // [experts]
  std::vector<std::int64_t> chosen;  // [top_k], the best first
  // The smallest difference between two sums that decided, equal ones of equal terms aside.
  double margin = 0.0;
};
// logits [experts]; bias [experts] or empty.
[[nodiscard]] RouteRow route_row(const tern_moe_route_attrs& attrs, std::span<const double> logits,
                                 std::span<const double> bias, std::int64_t top_k);

// softmax(logits), or sigmoid of each.
[[nodiscard]] std::vector<double> route_scores(bool sigmoid, std::span<const double> logits);

}  // namespace tern::ops::ref
