#include "engine/pooler.h"

#include <cstring>
#include <stdexcept>

#include "models/registry.h"
#include "nn/head.h"
#include "nn/linear.h"
#include "nn/scale.h"
#include "ops/gather_rows.h"
#include "ops/mul.h"
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
  const Value sum = ops::scatter_add_rows(graph, hidden, texts, options.max_texts, sums);
  if (options.output != PooledOutput::labels) return sum;  // the host divides
  const Value shares = graph.input("shares", make_desc(TERN_F32, {options.max_texts}));
  TensorDesc wide = make_desc(TERN_F32, {options.max_texts, graph.desc(sum).shape[1]});
  wide.strides[0] = 1;
  wide.strides[1] = 0;
  ops::MulOptions product;
  product.needs = options.numerics.needs;
  return ops::mul(graph, sum, graph.view(shares, wide, 0), product);
}

Value output_of(nn::Context& context, const models::LoadedModel& model, PooledOutput output, Value rows) {
  if (output == PooledOutput::tokens) return nn::logits(context, model.architecture->head(model.config), rows);
  if (output == PooledOutput::labels) {
    if (const auto& encoder = model.architecture->encoder) return encoder->label_logits(context, model.config, rows);
    return nn::product(context, rows, context.weight(models::kScoreWeight), {}, TERN_F32, context.options().compute);
  }
  return nn::as_f32(context, rows);
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
  capacity.token_types = model.architecture->encoder && model.architecture->encoder->token_types != nullptr;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  graph.output("out", output_of(context, model, options.output, pooled(graph, options, inputs, hidden)));
  return graph;
}

}  // namespace

Pooler::Pooler(models::LoadedModel& model, const PoolerOptions& options, session::Runtime& runtime)
    : options_(options),
      config_(model.config),
      encoder_(model.architecture->encoder ? &*model.architecture->encoder : nullptr) {
  const bool has_labels = model.config.head == models::ModelHead::classification;
  if (options.output == PooledOutput::labels && !has_labels) throw std::logic_error("the model has no labels");
  program_ = runtime.build(build_graph(model, options), model.store);
}

std::int32_t Pooler::row_of(std::span<const std::int32_t> text) const {
  if (options_.pooling == Pooling::cls) return 0;
  const auto last = static_cast<std::int32_t>(text.size()) - 1;
  if (options_.output != PooledOutput::labels || config_.pad_token_id < 0) return last;
  for (std::int32_t at = last; at >= 0; --at) {
    if (text[static_cast<std::size_t>(at)] != config_.pad_token_id) return at;
  }
  return 0;  // transformers' own place in a text of padding alone
}

bool Pooler::divides_in_graph() const {
  return options_.pooling == Pooling::mean && options_.output == PooledOutput::labels;
}

void Pooler::add_text(std::span<const std::int32_t> text, nn::TokenColumns& columns) const {
  const std::int32_t begin = columns.cu_seqlens.back();
  const auto length = static_cast<std::int32_t>(text.size());
  columns.ids.insert(columns.ids.end(), text.begin(), text.end());
  columns.cu_seqlens.push_back(begin + length);
  if (options_.pooling != Pooling::mean) columns.rows.push_back(begin + row_of(text));
  if (encoder_ != nullptr && encoder_->positions != nullptr) {
    const auto positions = encoder_->positions(config_, text);
    columns.positions.insert(columns.positions.end(), positions.begin(), positions.end());
    return;
  }
  for (std::int32_t at = 0; at < length; ++at) columns.positions.push_back(at);
}

std::vector<std::vector<float>> Pooler::run(std::span<const std::span<const std::int32_t>> texts,
                                            std::span<const std::span<const std::int32_t>> token_types) {
  if (static_cast<std::int64_t>(texts.size()) > options_.max_texts)
    throw std::logic_error("more texts than one run has");
  nn::TokenColumns columns;
  std::vector<std::int32_t> text_of_token;
  std::vector<float> shares(static_cast<std::size_t>(options_.max_texts), 0.0F);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    add_text(texts[i], columns);
    text_of_token.insert(text_of_token.end(), texts[i].size(), static_cast<std::int32_t>(i));
    shares[i] = 1.0F / static_cast<float>(texts[i].size());
    if (i < token_types.size())
      columns.token_types.insert(columns.token_types.end(), token_types[i].begin(), token_types[i].end());
    columns.token_types.resize(columns.ids.size());
  }
  graph::RunInputs run;
  nn::give_tokens(run, columns);
  run.inputs["texts"] = nn::bytes_of(text_of_token);
  if (divides_in_graph()) run.inputs["shares"] = nn::bytes_of(shares);
  program_->run(run);
  const std::span<const std::byte> bytes = program_->output("out");
  const auto all_rows = static_cast<std::size_t>(options_.pooling == Pooling::mean ? options_.max_texts : texts.size());
  const std::size_t width = bytes.size() / sizeof(float) / all_rows;
  std::vector<std::vector<float>> out(texts.size(), std::vector<float>(width));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(out[i].data(), bytes.data() + i * width * sizeof(float), width * sizeof(float));
    if (options_.pooling != Pooling::mean || divides_in_graph()) continue;
    for (float& number : out[i]) number /= static_cast<float>(texts[i].size());
  }
  return out;
}

}  // namespace tern::engine
