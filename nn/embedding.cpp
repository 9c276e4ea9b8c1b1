#include "nn/embedding.h"

#include "nn/scale.h"
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

Value word_embedding(Context& context, const std::string& module, Value ids, double scale) {
  const Value words = embedding(context, module, ids);
  if (!context.embedding_noise.present()) return words;
  return weighted_sum(context, 1.0, words, 1.0 / scale, context.embedding_noise);
}

}  // namespace tern::nn
