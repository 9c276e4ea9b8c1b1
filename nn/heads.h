// Features seen as heads.
#pragma once

#include "nn/context.h"

namespace tern::nn {

// Heads of x [tokens, width] from feature `first` on: [tokens, heads, head_dim].
Value heads_of(Context& context, Value x, std::int64_t first, std::int64_t heads, std::int64_t head_dim);

}  // namespace tern::nn
