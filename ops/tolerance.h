// How far a device's result may lie from the fp64 oracle's: every tolerance, in one place.
//
// An oracle gives for each element the exact value v and a magnitude M: the sum of the absolute terms that make v, with
// every rounding of fp32 on the way counted (ops/ref/oracle.h). A kernel as the contract says computes in fp32 and
// rounds once to the output's dtype. Its fp32 result lies within
//
//   slack = u32 growth(n) M + 2^-126,   u32 = 2^-24,   growth(n) = 2 + min(n, 4 sqrt(n)),
//
// n being the number of terms that one reduction sums: n u32 M is the bound of any order of summation (Higham,
// "Accuracy and Stability of Numerical Algorithms", 4.2), and 4 sqrt(n) u32 M holds with overwhelming probability
// (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SISC 2019). The 2 is for the operations
// that make a term and follow the sum; 2^-126 lets a device flush subnormals. The output is then any rounding of a
// number in that range: [round(v - slack), round(v + slack)], so a wrong rounding mode shows wherever slack is below
// half an ulp. Outputs that are copies, rounded once, are exact: slack = 0.
#pragma once

#include <cstdint>
#include <span>

#include "ops/tensor_desc.h"

namespace tern::ops {

// Terms of the longest reduction behind output `arg` of a call with these descs (dynamic dimensions cut).
[[nodiscard]] std::int64_t reduction_length(std::uint32_t op, int arg, std::span<const TensorDesc> args,
                                            std::span<const std::byte> attrs);

// Whether the output is exactly the oracle's value, rounded to its dtype.
[[nodiscard]] bool is_exact(std::uint32_t op, int arg, std::uint32_t accumulate);

[[nodiscard]] double rounding_growth(std::int64_t length);  // growth(n) of above

// How far `got` lies from `exact` as a share of what is allowed: at most 1 passes, infinity where nothing is allowed.
// Where `exact` rounds to no finite number, any non-finite result passes, unless `strict`: then the same infinity or
// NaN.
[[nodiscard]] double error_share(tern_dtype dtype, double exact, double slack, double got, bool strict);

// Slack of above from an element's magnitude.
[[nodiscard]] double slack_of(double magnitude, std::int64_t length);

}  // namespace tern::ops
