// DoRA (Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024): the rows of W + scaling B A have learned
// magnitudes m.
#pragma once

#include <functional>

#include "nn/context.h"

namespace tern::nn {

// What a linear layer makes of its input, as PEFT computes it:
//   y = bias + m / |W + scaling B A| (W x + scaling B A x)
// and in training with dropout d, by which PEFT multiplies what enters both products of the change:
//   y = bias + W x - W d(x) + m / |W + scaling B A| (W d(x) + scaling B A d(x))
struct DoraInputs {
  Value x;                                         // [rows, in]
  Value dropped;                                   // d(x); x itself: no dropout
  Value bias;                                      // [out] or absent
  std::function<Value(Value x)> weight;            // x -> x W^T
  std::function<Value(Value x, Value y)> adapter;  // x, y -> y + scaling (x A^T) B^T, y being absent or consumed
};
Value with_magnitude(Context& context, const LoraLayer& layer, const DoraInputs& inputs);

}  // namespace tern::nn
