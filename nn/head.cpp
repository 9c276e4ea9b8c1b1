#include "nn/head.h"

#include "nn/linear.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/dequantize.h"
#include "ops/softcap.h"

namespace tern::nn {
namespace {

// The scale goes onto the rows, of which there are fewer numbers than logits; so does its gradient.
Value scaled(Context& context, const Head& head, Value rows) {
  if (head.scale == 1.0F) return rows;
  ops::AxpbyOptions options;
  options.a = head.scale;
  options.needs = context.options().needs;
  return ops::axpby(context.graph(), rows, {}, options);
}

const LoraLayer* adapter_of(Context& context) {
  const auto found = context.options().adapters.find("lm_head");
  return found == context.options().adapters.end() ? nullptr : &found->second;
}

void put_columns(Context& context, Value x, Value buffer, std::int64_t first) {
  graph::Graph& graph = context.graph();
  ops::CastCopyOptions copy;
  copy.at = ops::columns(graph, graph.latest(buffer), first, graph.desc(x).shape[1]);
  copy.out = graph.desc(buffer).dtype;
  copy.needs = context.options().needs;
  (void)ops::cast_copy(graph, x, copy);
}

// [a | b] of two matrices with the same rows, in a's dtype.
Value side_by_side(Context& context, Value a, Value b) {
  graph::Graph& graph = context.graph();
  const TensorDesc left = graph.desc(a);
  const std::int64_t columns = left.shape[1] + graph.desc(b).shape[1];
  const Value both = graph.buffer(ops::rows_like(make_desc(left.dtype, {left.shape[0], columns}), left));
  put_columns(context, a, both, 0);
  put_columns(context, b, both, left.shape[1]);
  return graph.latest(both);
}

}  // namespace

Value logits(Context& context, const Head& head, Value rows) {
  const Value x = scaled(context, head, rows);
  Value z = product(context, x, context.weight(head.weight), {}, TERN_F32, context.options().compute);
  if (const LoraLayer* adapter = adapter_of(context)) z = add_adapter(context, *adapter, x, {}, z);
  if (head.softcap == 0.0F) return z;
  return ops::softcap(context.graph(), z, {.cap = head.softcap, .needs = context.options().needs});
}

ops::LinearCrossEntropyOut cross_entropy(Context& context, const Head& head, Value rows, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options) {
  options.compute = context.options().compute;
  options.softcap = head.softcap;
  options.needs = context.options().needs;
  graph::Graph& graph = context.graph();
  Value x = scaled(context, head, rows);
  Value w = context.weight(head.weight);
  if (const LoraLayer* adapter = adapter_of(context)) {
    // The logits are never held, so the adapter is further columns of the product: [x | scaling drop(x) A^T] [W | B]^T.
    const Value low = shrink(context, adapter->lora_a, adapter->scaling, x, adapter_dropout(context, x));
    x = side_by_side(context, x, low);
    if (is_quantised(graph.desc(w))) w = ops::dequantize(graph, w, TERN_F32, options.needs);
    w = side_by_side(context, w, context.weight(adapter->lora_b));
    options.dw = context.options().training;
  }
  return ops::linear_cross_entropy(graph, x, w, targets, weights, options);
}

}  // namespace tern::nn
