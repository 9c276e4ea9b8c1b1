// Activations of features, one by one.
#pragma once

#include "nn/context.h"

namespace tern::nn {

// act(x), in the dtype of activations or in `out`.
Value activation(Context& context, Value x, tern_act kind);
Value activation(Context& context, Value x, tern_act kind, tern_dtype out);

}  // namespace tern::nn
