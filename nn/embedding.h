// Token embeddings.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// Rows of "<module>.weight" [vocab, hidden] by ids [tokens] -> [tokens, hidden]; with an adapter, whose lora_a is
// [vocab, rank], scaling times its rows times B^T are added. It has no dropout, as PEFT's has none.
Value embedding(Context& context, const std::string& module, Value ids);

// Of a model's words: with context.embedding_noise where a run has that, which comes times 1 / `scale`, as what follows
// multiplies it by that.
Value word_embedding(Context& context, const std::string& module, Value ids, double scale = 1.0);

}  // namespace tern::nn
