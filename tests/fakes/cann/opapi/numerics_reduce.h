// What runs along dimensions: reductions, softmax, running sums, order, and copies by index.
#pragma once

#include <functional>

#include "numerics_view.h"

namespace fake::numerics {

// The order in which a nondeterministic op adds: 0 is from the first to the last, any other number starts elsewhere.
[[nodiscard]] std::vector<std::int64_t> summation_order(std::int64_t count, std::uint64_t shuffle);

enum class Reduction { kSum, kMean, kMax, kMin, kProduct, kAll, kAny, kLogSumExp, kSquares };
// out: x's shape without `dimensions` (all of them where empty), or with 1 in their place.
void reduce(const View& x, const Shape& dimensions, Reduction reduction, const View& out);

void softmax(const View& x, std::int64_t dimension, bool logarithm, const View& out);
void softmax_backward(const View& dy, const View& y, std::int64_t dimension, bool logarithm, const View& out);
void cumulative_sum(const View& x, std::int64_t dimension, bool exclusive, bool reverse, const View& out);

// The first `k` along the dimension in falling (or rising) order, the lower index first among equals; NaN is largest.
void top(const View& x, std::int64_t k, std::int64_t dimension, bool largest, const View* values, const View& indices);
// The largest or smallest along a dimension, the lower index first; `out` without the dimension or with 1.
void arg_extreme(const View& x, std::int64_t dimension, bool largest, const View* values, const View& indices);

// out[..., i, ...] = x[..., index[i], ...]: index of any rank takes the dimension's place. A negative index counts from
// the end where `wraps`; whether indices are in range is the caller's to look at.
void take(const View& x, std::int64_t dimension, const std::vector<std::int64_t>& index, const View& out);
// y[..., index[i], ...] = or += source[..., i, ...] times alpha, in the order given.
void put(const View& y, std::int64_t dimension, const std::vector<std::int64_t>& index, const View& source,
         bool accumulate, double alpha = 1, std::uint64_t shuffle = 0);
// Elementwise along one dimension: out[i][j] = x[index[i][j]][j] and its inverse.
void gather(const View& x, std::int64_t dimension, const View& index, const View& out);
void scatter(const View& y, std::int64_t dimension, const View& index, const View& source, bool accumulate);

}  // namespace fake::numerics
