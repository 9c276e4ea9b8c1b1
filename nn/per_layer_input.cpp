#include "nn/per_layer_input.h"

#include <cmath>

#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "nn/scale.h"
#include "ops/act_mul.h"
#include "ops/build.h"

namespace tern::nn {

Value per_layer_inputs(Context& context, const std::string& module, const PerLayerInputs& config, Value ids,
                       Value embedded) {
  graph::Graph& graph = context.graph();
  const Value projected = linear(context, module + ".per_layer_model_projection", embedded);
  const TensorDesc flat = graph.desc(projected);
  const TensorDesc split = make_desc(flat.dtype, {flat.shape[0], config.layers, config.size});
  // Before the norm it is over the root of the embedding's size, which epsilon alone feels.
  const HeadNorm norm{module + ".per_layer_projection_norm",
                      config.eps * static_cast<double>(graph.desc(embedded).shape[1])};
  const Value normed = norm_heads(context, norm, graph.view(projected, ops::rows_like(split, flat), 0));
  const Value own = embedding(context, module + ".embed_tokens_per_layer", ids);
  // Over the root of two; the embedding is times the root of its size.
  return weighted_sum(context, std::sqrt(0.5), ops::as_matrix(graph, normed),
                      std::sqrt(0.5 * static_cast<double>(config.size)), own);
}

Value per_layer_branch(Context& context, const std::string& module, const PerLayerInputs& config, std::int64_t layer,
                       Value inputs, Value x) {
  ops::ActMulOptions open;
  open.kind = TERN_ACT_GELU_TANH;
  open.out = context.options().activations;
  open.needs = context.options().needs;
  const Value gate = linear(context, module + ".per_layer_input_gate", x);
  const Value input = ops::columns(context.graph(), inputs, layer * config.size, config.size);
  const Value inner = ops::act_mul(context.graph(), gate, input, open);
  return branch_norm(context, module + ".post_per_layer_input_norm", config.eps,
                     linear(context, module + ".per_layer_projection", inner));
}

}  // namespace tern::nn
