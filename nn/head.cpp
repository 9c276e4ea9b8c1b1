#include "nn/head.h"

#include "nn/head_operands.h"
#include "nn/linear.h"
#include "nn/side_by_side.h"
#include "ops/axpby.h"
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

}  // namespace

Value logits(Context& context, const Head& head, Value rows) {
  const Value x = scaled(context, head, rows);
  Value z = product(context, x, context.weight(head.weight), {}, TERN_F32, context.options().compute);
  if (const LoraLayer* adapter = adapter_of(context)) z = add_adapter(context, *adapter, x, {}, z);
  if (head.softcap == 0.0F) return z;
  return ops::softcap(context.graph(), z, {.cap = head.softcap, .needs = context.options().needs});
}

HeadOperands head_operands(Context& context, const Head& head, Value rows) {
  graph::Graph& graph = context.graph();
  const std::uint32_t needs = context.options().needs;
  HeadOperands out{scaled(context, head, rows), context.weight(head.weight), head.softcap};
  const LoraLayer* adapter = adapter_of(context);
  if (adapter == nullptr) return out;
  // The logits are never held, so the adapter is further columns of the product: [x | scaling drop(x) A^T] [W | B]^T.
  const Value low = shrink(context, adapter->lora_a, adapter->scaling, out.rows, adapter_dropout(context, out.rows));
  out.rows = side_by_side(context, out.rows, low);
  if (is_quantised(graph.desc(out.weight))) out.weight = ops::dequantize(graph, out.weight, TERN_F32, needs);
  out.weight = side_by_side(context, out.weight, context.weight(adapter->lora_b));
  out.adapted = true;
  return out;
}

ops::LinearCrossEntropyOut cross_entropy(Context& context, const HeadOperands& of, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options) {
  options.compute = context.options().compute;
  options.softcap = of.softcap;
  options.needs = context.options().needs;
  if (of.adapted) options.dw = options.dh;
  return ops::linear_cross_entropy(context.graph(), of.rows, of.weight, targets, weights, options);
}

ops::LinearCrossEntropyOut cross_entropy(Context& context, const Head& head, Value rows, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options) {
  return cross_entropy(context, head_operands(context, head, rows), targets, weights, options);
}

}  // namespace tern::nn
