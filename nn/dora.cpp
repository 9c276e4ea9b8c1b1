#include "nn/dora.h"

#include "nn/scale.h"
#include "ops/build.h"
#include "ops/mul.h"

namespace tern::nn {

Value with_magnitude(Context& context, const LoraLayer& layer, const DoraInputs& inputs) {
  graph::Graph& graph = context.graph();
  const BuildOptions& build = context.options();
  const Value base = inputs.weight(inputs.dropped);
  const bool drops = !(inputs.dropped == inputs.x);
  // Where the product by W is read again the adapter must not write upon it.
  const Value sum = drops ? weighted_sum(context, 1.0, base, 1.0, inputs.adapter(inputs.dropped, {}))
                          : inputs.adapter(inputs.dropped, base);
  const Value scale = ops::mul(graph, context.weight(layer.magnitude), context.weight(layer.inverse_norm),
                               {.out = TERN_F32, .needs = build.needs});
  Value y = ops::mul(graph, sum, ops::broadcast_rows(graph, scale, graph.desc(sum)),
                     {.out = build.activations, .needs = build.needs});
  if (drops) {
    y = weighted_sum(context, 1.0, y, 1.0, weighted_sum(context, 1.0, inputs.weight(inputs.x), -1.0, base));
  }
  if (!inputs.bias.present()) return y;
  return weighted_sum(context, 1.0, y, 1.0, ops::broadcast_rows(graph, inputs.bias, graph.desc(y)));
}

}  // namespace tern::nn
