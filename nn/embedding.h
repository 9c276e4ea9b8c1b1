// Token embeddings.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// Rows of "<module>.weight" [vocab, hidden] by ids [tokens] -> [tokens, hidden].
Value embedding(Context& context, const std::string& module, Value ids);

}  // namespace tern::nn
