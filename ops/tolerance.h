// How far a device's result may lie from the fp64 oracle's: every tolerance, in one place.
//
// An oracle (ops/ref/oracle.h) gives for each element the exact value v and what a kernel that keeps the contract may
// be off by before it rounds to the output's dtype:
//
//   slack = u32 growth(n) M32 + M16 + 2^-126,   u32 = 2^-24,   growth(n) = 2 + min(n, 4 sqrt(n)).
//
// M32 is the sum of the absolute terms that make v, each counted as often as fp32 rounds it on the way, and n the
// number of terms of the element's own longest sum: an attention row counts the keys that it sees, not those of the
// longest row. n u32 M32 is the bound of any order of summation (Higham, "Accuracy and Stability of Numerical
// Algorithms", 4.2), and 4 sqrt(n) u32 M32 holds with overwhelming probability (Higham and Mary, "A New Approach to
// Probabilistic Rounding Error Analysis", SISC 2019). The 2 is for the operations that make a term and follow the sum.
//
// M16 is the sum of what storing intermediates in 16 bits adds, where the contract allows that (softmax weights before
// their product with v, say). Each is rounded once and summed in fp32, so it does not grow with n: multiplied by
// growth, a kernel that forgets a key of every long row passes.
//
// 2^-126 lets a device flush subnormals. The output is then any rounding of a number in that range: [round(v - slack),
// round(v + slack)], so a wrong rounding mode shows wherever slack is below half an ulp. Outputs that are copies,
// rounded once, are exact: slack = 0.
#pragma once

#include <cstdint>

#include "tern/accel.h"

namespace tern::ops {

[[nodiscard]] double rounding_growth(std::int64_t length);  // growth(n) of above

// How far `got` lies from `exact` as a share of what is allowed: at most 1 passes, infinity where nothing is allowed.
// Where `exact` rounds to no finite number, any non-finite result passes, unless `strict`: then the same infinity or
// NaN.
[[nodiscard]] double error_share(tern_dtype dtype, double exact, double slack, double got, bool strict);

// Slack of above. `narrowed` is M16, absolute.
[[nodiscard]] double slack_of(double roundings, std::int64_t terms, double narrowed = 0.0);

}  // namespace tern::ops
