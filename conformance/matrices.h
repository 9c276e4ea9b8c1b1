// The shapes of ops that take elements or rows of a matrix.
#pragma once

#include <array>

#include "conformance/case_builder.h"

namespace tern::conformance {

// [rows, width]: middling, odd, prime, one element, empty, tall, wide, huge and square, more rows than 16 bits count.
inline constexpr std::array<std::array<std::int64_t, 2>, 10> kMatrices = {
    {{16, 64}, {7, 33}, {13, 131}, {1, 1}, {0, 8}, {1031, 3}, {3, 4099}, {211, 1009}, {32, 32}, {70001, 3}}};

[[nodiscard]] inline CaseBuilder::Shape matrix(const CaseBuilder& b) {
  const auto& shape = kMatrices[static_cast<std::size_t>(b.variant().size)];
  return {shape[0], shape[1]};
}

}  // namespace tern::conformance
