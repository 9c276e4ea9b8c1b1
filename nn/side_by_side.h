// Two matrices as one.
#pragma once

#include "nn/context.h"

namespace tern::nn {

// [a | b]: a [rows, m], b [rows, n] -> [rows, m + n], in a's dtype.
Value side_by_side(Context& context, Value a, Value b);
// Writes x [rows, width] upon columns [first, first + width) of `place`, a buffer or a state, in its dtype.
void put_columns(Context& context, Value x, Value place, std::int64_t first);

}  // namespace tern::nn
