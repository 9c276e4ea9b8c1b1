// A device's output against the oracle's, element by element.
#pragma once

#include <string>

#include "conformance/case.h"

namespace tern::conformance {

struct Comparison {
  double worst = 0.0;   // the largest error as a share of the tolerance; at most 1 passes
  std::string problem;  // of the worst element, where it does not
};

// Output `arg` of the case. Both tensors hold the valid part in logical order.
[[nodiscard]] Comparison compare(const Case& c, int arg, const ops::ref::Tensor& expected, const ops::ref::Tensor& got);

}  // namespace tern::conformance
