#include "nn/embedding.h"

#include "nn/scale.h"
#include "ops/embedding.h"

namespace tern::nn {

Value embedding(Context& context, const std::string& module, Value ids) {
  return ops::embedding(context.graph(), context.weight(module + ".weight"), ids, context.options().activations,
                        context.options().needs);
}

Value word_embedding(Context& context, const std::string& module, Value ids, double scale) {
  const Value words = embedding(context, module, ids);
  if (!context.embedding_noise.present()) return words;
  return weighted_sum(context, 1.0, words, 1.0 / scale, context.embedding_noise);
}

}  // namespace tern::nn
