// Sums of what layers give, each times a number, and the dtype that they come in.
#pragma once

#include "nn/context.h"

namespace tern::nn {

// factor x: x itself where the factor is 1.
Value scaled(Context& context, Value x, double factor);
// x in f32: x itself where it is.
Value as_f32(Context& context, Value x);
// a x + b y, of one shape.
Value weighted_sum(Context& context, double a, Value x, double b, Value y);

}  // namespace tern::nn
