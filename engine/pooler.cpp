#include "engine/pooler.h"

#include <cstring>
#include <stdexcept>

#include "models/registry.h"

namespace tern::engine {
namespace {

using ops::Value;

models::PooledOutputOptions output_options(const PoolerOptions& options) {
  models::PooledOutputOptions out;
  out.pooling = options.pooling;
  out.output = options.output;
  out.max_tokens = options.max_tokens;
  out.max_texts = options.max_texts;
  out.host_divides = options.output != PooledOutput::labels;
  out.needs = options.numerics.needs;
  return out;
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
  capacity.rows = models::takes_rows(options.pooling) ? options.max_texts : 0;
  capacity.max_seqlen = options.max_tokens;
  capacity.token_types = model.architecture->encoder && model.architecture->encoder->token_types != nullptr;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  graph.output("out", models::pooled_output(context, model, output_options(options), inputs, hidden));
  return graph;
}

}  // namespace

Pooler::Pooler(models::LoadedModel& model, const PoolerOptions& options, session::Runtime& runtime)
    : options_(options),
      config_(model.config),
      encoder_(model.architecture->encoder ? &*model.architecture->encoder : nullptr),
      trace_(runtime.trace()) {
  const bool has_labels = model.config.head == models::ModelHead::classification;
  if (options.output == PooledOutput::labels && !has_labels) throw std::logic_error("the model has no labels");
  program_ = runtime.build(build_graph(model, options), model.store);
}

bool Pooler::divides_in_graph() const {
  return options_.pooling == Pooling::mean && options_.output == PooledOutput::labels;
}

void Pooler::add_text(std::span<const std::int32_t> text, nn::TokenColumns& columns) const {
  const std::int32_t begin = columns.cu_seqlens.back();
  const auto length = static_cast<std::int32_t>(text.size());
  columns.ids.insert(columns.ids.end(), text.begin(), text.end());
  columns.cu_seqlens.push_back(begin + length);
  if (models::takes_rows(options_.pooling))
    columns.rows.push_back(begin + models::pooled_row(config_, output_options(options_), text));
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
  const accel::TraceStep step(trace_, ++runs_);
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
  if (options_.pooling == Pooling::mean) run.inputs["texts"] = nn::bytes_of(text_of_token);
  if (divides_in_graph()) run.inputs["shares"] = nn::bytes_of(shares);
  program_->run(run);
  const std::span<const std::byte> bytes = program_->output("out");
  const bool each = options_.pooling == Pooling::each;
  const std::size_t all_rows = each                                ? columns.ids.size()
                               : options_.pooling == Pooling::mean ? static_cast<std::size_t>(options_.max_texts)
                                                                   : texts.size();
  const std::size_t width = bytes.size() / sizeof(float) / all_rows;
  std::vector<std::vector<float>> out(texts.size());
  std::size_t row = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t rows = each ? texts[i].size() : 1;
    out[i].resize(rows * width);
    std::memcpy(out[i].data(), bytes.data() + row * width * sizeof(float), out[i].size() * sizeof(float));
    row += rows;
    if (options_.pooling != Pooling::mean || divides_in_graph()) continue;
    for (float& number : out[i]) number /= static_cast<float>(texts[i].size());
  }
  return out;
}

}  // namespace tern::engine
