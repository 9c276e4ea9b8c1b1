#include "models/pooled_output.h"

#include "models/registry.h"
#include "nn/head.h"
#include "nn/linear.h"
#include "nn/scale.h"
#include "ops/axpby.h"
#include "ops/gather_rows.h"
#include "ops/mul.h"
#include "ops/scatter_add_rows.h"

namespace tern::models {
namespace {

using ops::Value;

// [texts, hidden]
Value pooled(graph::Graph& graph, const PooledOutputOptions& options, const nn::TokenInputs& inputs, Value hidden) {
  if (options.pooling == Pooling::each) return hidden;
  if (takes_rows(options.pooling)) return ops::gather_rows(graph, hidden, inputs.rows, options.needs);
  const TensorDesc desc = with_dynamic(make_desc(TERN_I32, {options.max_tokens}), 0, nn::kTokens);
  const Value texts = graph.input("texts", desc, graph::Padding::minus_one);
  ops::ScatterAddRowsOptions sums;
  sums.needs = options.needs;
  const Value sum = ops::scatter_add_rows(graph, hidden, texts, options.max_texts, sums);
  if (options.host_divides) return sum;
  const Value shares = graph.input("shares", make_desc(TERN_F32, {options.max_texts}));
  TensorDesc wide = make_desc(TERN_F32, {options.max_texts, graph.desc(sum).shape[1]});
  wide.strides[0] = 1;
  wide.strides[1] = 0;
  ops::MulOptions product;
  product.needs = options.needs;
  return ops::mul(graph, sum, graph.view(shares, wide, 0), product);
}

}  // namespace

ops::Value pooled_output(nn::Context& context, const LoadedModel& model, const PooledOutputOptions& options,
                         const nn::TokenInputs& inputs, ops::Value hidden) {
  const Value rows = pooled(context.graph(), options, inputs, hidden);
  if (options.output == PooledOutput::tokens) return nn::logits(context, model.architecture->head(model.config), rows);
  if (options.output == PooledOutput::verdict) {
    const Value logits = nn::logits(context, model.architecture->head(model.config), rows);
    TensorDesc column = context.graph().desc(logits);
    column.shape[1] = 1;
    ops::AxpbyOptions difference;
    difference.b = -1.0F;
    difference.needs = options.needs;
    return ops::axpby(context.graph(), context.graph().view(logits, column, options.yes),
                      context.graph().view(logits, column, options.no), difference);
  }
  if (options.output == PooledOutput::labels) {
    if (const auto& encoder = model.architecture->encoder) return encoder->label_logits(context, model.config, rows);
    return nn::product(context, rows, context.weight(kScoreWeight), {}, TERN_F32, context.options().compute);
  }
  return nn::as_f32(context, rows);
}

std::int32_t pooled_row(const ModelConfig& config, const PooledOutputOptions& options,
                        std::span<const std::int32_t> text) {
  if (options.pooling == Pooling::cls) return 0;
  const auto last = static_cast<std::int32_t>(text.size()) - 1;
  if (options.output != PooledOutput::labels || config.pad_token_id < 0) return last;
  for (std::int32_t at = last; at >= 0; --at) {
    if (text[static_cast<std::size_t>(at)] != config.pad_token_id) return at;
  }
  return 0;  // transformers' own place in a text of padding alone
}

}  // namespace tern::models
