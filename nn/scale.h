// Sums of what layers give, each times a number.
#pragma once

#include "nn/context.h"

namespace tern::nn {

// factor x: x itself where the factor is 1.
Value scaled(Context& context, Value x, double factor);
// a x + b y, of one shape.
Value weighted_sum(Context& context, double a, Value x, double b, Value y);

}  // namespace tern::nn
