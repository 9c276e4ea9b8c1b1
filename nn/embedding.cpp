#include "nn/embedding.h"

#include "ops/embedding.h"

namespace tern::nn {

Value embedding(Context& context, const std::string& module, Value ids) {
  return ops::embedding(context.graph(), context.weight(module + ".weight"), ids, context.options().activations,
                        context.options().needs);
}

}  // namespace tern::nn
