// The rotation that rope and qk_norm_rope share.
#pragma once

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

struct Rotated {
  double value;
  double magnitude;
};

// Element `d` of a head whose elements and magnitudes are given, rotated by row `position` of the tables [positions,
// rotary / 2]; `inverse` rotates back.
[[nodiscard]] inline Rotated rotate(const double* head, const double* magnitude, std::int64_t d, const Tensor& cos,
                                    const Tensor& sin, std::int64_t position, bool interleaved, bool inverse) {
  const std::int64_t half = cos.size(1);
  if (d >= 2 * half) return {head[d], magnitude[d]};
  const std::int64_t pair = interleaved ? d / 2 : d % half;
  const bool second = interleaved ? d % 2 == 1 : d >= half;
  const std::int64_t partner = interleaved ? d ^ 1 : (second ? d - half : d + half);
  const auto at = static_cast<std::size_t>(position * half + pair);
  const double c = cos.real.at(at);
  const double s = second != inverse ? sin.real.at(at) : -sin.real.at(at);
  return {head[d] * c + head[partner] * s, magnitude[d] * std::fabs(c) + magnitude[partner] * std::fabs(s)};
}

}  // namespace tern::ops::ref
