#include "nn/embedding.h"

#include "ops/embedding.h"
#include "ops/matmul.h"

namespace tern::nn {

Value embedding(Context& context, const std::string& module, Value ids) {
  graph::Graph& graph = context.graph();
  const BuildOptions& build = context.options();
  const Value y = ops::embedding(graph, context.weight(module + ".weight"), ids, build.activations, build.needs);
  const auto adapter = build.adapters.find(module);
  if (adapter == build.adapters.end()) return y;
  const Value low = ops::embedding(graph, context.weight(adapter->second.lora_a), ids, TERN_F32, build.needs);
  ops::MatmulOptions up;
  up.transpose_b = true;
  up.compute = TERN_F32;
  up.alpha = adapter->second.scaling;
  up.out = build.activations;
  up.into = y;
  up.needs = build.needs;
  return ops::matmul(graph, low, context.weight(adapter->second.lora_b), up);
}

}  // namespace tern::nn
