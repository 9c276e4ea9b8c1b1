#include "engine/pooler.h"

#include <cstring>
#include <stdexcept>

#include "models/registry.h"
#include "nn/head.h"
#include "nn/linear.h"
#include "ops/cast_copy.h"
#include "ops/gather_rows.h"
#include "ops/scatter_add_rows.h"

namespace tern::engine {
namespace {

using ops::Value;

// [texts, hidden]
Value pooled(graph::Graph& graph, const PoolerOptions& options, const nn::TokenInputs& inputs, Value hidden) {
  if (options.pooling != Pooling::mean) return ops::gather_rows(graph, hidden, inputs.rows, options.numerics.needs);
  const TensorDesc desc = with_dynamic(make_desc(TERN_I32, {options.max_tokens}), 0, nn::kTokens);
  const Value texts = graph.input("texts", desc, graph::Padding::minus_one);
  ops::ScatterAddRowsOptions sums;
  sums.needs = options.numerics.needs;
  return ops::scatter_add_rows(graph, hidden, texts, options.max_texts, sums);
}

Value output_of(nn::Context& context, const models::LoadedModel& model, PooledOutput output, Value rows) {
  if (output == PooledOutput::tokens) return nn::logits(context, model.architecture->head(model.config), rows);
  if (output == PooledOutput::labels) {
    return nn::product(context, rows, context.weight(models::kScoreWeight), {}, TERN_F32, context.options().compute);
  }
  if (context.graph().desc(rows).dtype == TERN_F32) return rows;
  ops::CastCopyOptions wide;
  wide.needs = context.options().needs;
  return ops::cast_copy(context.graph(), rows, wide);
}

graph::Graph build_graph(const models::LoadedModel& model, const PoolerOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options.numerics;
  build.adapters = options.adapters;
  nn::Context context(graph, *model.store, build);
  nn::TokenCapacity capacity;
  capacity.tokens = options.max_tokens;
  capacity.sequences = options.max_texts;
  capacity.rows = options.pooling == Pooling::mean ? 0 : options.max_texts;
  capacity.max_seqlen = options.max_tokens;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  graph.output("out", output_of(context, model, options.output, pooled(graph, options, inputs, hidden)));
  return graph;
}

}  // namespace

Pooler::Pooler(models::LoadedModel& model, const PoolerOptions& options, session::Runtime& runtime)
    : options_(options), pad_token_id_(model.config.pad_token_id) {
  const bool has_labels = model.config.head == models::ModelHead::classification;
  if (options.output == PooledOutput::labels && !has_labels) throw std::logic_error("the model has no labels");
  program_ = runtime.build(build_graph(model, options), model.store);
}

std::int32_t Pooler::row_of(std::span<const std::int32_t> text) const {
  if (options_.pooling == Pooling::cls) return 0;
  const auto last = static_cast<std::int32_t>(text.size()) - 1;
  if (options_.output != PooledOutput::labels || pad_token_id_ < 0) return last;
  for (std::int32_t at = last; at >= 0; --at) {
    if (text[static_cast<std::size_t>(at)] != pad_token_id_) return at;
  }
  return 0;  // transformers' own place in a text of padding alone
}

std::vector<std::vector<float>> Pooler::run(std::span<const std::span<const std::int32_t>> texts) {
  nn::TokenColumns columns;
  std::vector<std::int32_t> text_of_token;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int32_t begin = columns.cu_seqlens.back();
    const auto length = static_cast<std::int32_t>(texts[i].size());
    columns.ids.insert(columns.ids.end(), texts[i].begin(), texts[i].end());
    for (std::int32_t at = 0; at < length; ++at) columns.positions.push_back(at);
    columns.cu_seqlens.push_back(begin + length);
    if (options_.pooling == Pooling::mean) {
      text_of_token.insert(text_of_token.end(), texts[i].size(), static_cast<std::int32_t>(i));
    } else {
      columns.rows.push_back(begin + row_of(texts[i]));
    }
  }
  graph::RunInputs run;
  nn::give_tokens(run, columns);
  run.inputs["texts"] = nn::bytes_of(text_of_token);
  program_->run(run);
  const std::span<const std::byte> bytes = program_->output("out");
  const auto all_rows = static_cast<std::size_t>(options_.pooling == Pooling::mean ? options_.max_texts : texts.size());
  const std::size_t width = bytes.size() / sizeof(float) / all_rows;
  std::vector<std::vector<float>> out(texts.size(), std::vector<float>(width));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(out[i].data(), bytes.data() + i * width * sizeof(float), width * sizeof(float));
    if (options_.pooling != Pooling::mean) continue;
    for (float& number : out[i]) number /= static_cast<float>(texts[i].size());
  }
  return out;
}

}  // namespace tern::engine
