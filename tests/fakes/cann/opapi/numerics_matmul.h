// Products of matrices in fp32, blocked and packed: a model of a hundred million weights answers in under a second.
#pragma once

#include "numerics_view.h"

namespace fake::numerics {

// result[m, n] (contiguous) = or += a [m, k] times b [k, n], which lie in any strides and types.
void multiply(const View& a, const View& b, float* result, bool accumulate = false);

// HF32 has fp32's range and eleven bits behind the point.
enum class Rounding { kNone, kFloat16, kHf32 };  // of elements, before the product

// The same over leading dimensions, which broadcast: a [..., m, k], b [..., k, n]; written once to out [..., m, n].
struct Product {
  double alpha = 1;
  double beta = 0;  // times `addend`, broadcast to the result
  const View* addend = nullptr;
  Rounding rounding = Rounding::kNone;
};
void matmul(const View& a, const View& b, const View& out, const Product& product = {});

// Rows [starts[g], starts[g + 1]) of x times weights[g], plus biases[g]; rows past the last start aren't written.
struct GroupedProduct {
  std::vector<std::int64_t> starts;  // groups + 1
  std::vector<View> weights;         // [k, n] each
  std::vector<View> biases;          // [n] each, or none
};
void grouped_matmul(const View& x, const GroupedProduct& groups, const View& out);

// out[g] [k, n] = the group's columns of x [k, rows] times its rows of dy [rows, n]; an empty group gives zeros.
void grouped_outer(const View& x, const View& dy, const std::vector<std::int64_t>& starts, const View& out);

// The floats of a quantised weight [k, n], (q + offset) * scale, rounded to `element`; scales [groups, n] or [1, n].
[[nodiscard]] std::vector<float> dequantized(const View& weight, const View& scale, const View* offset,
                                             std::int64_t group_size, Element element);

}  // namespace fake::numerics
