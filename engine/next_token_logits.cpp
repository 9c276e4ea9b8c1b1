#include "engine/next_token_logits.h"

#include "base/dtype.h"
#include "nn/head.h"

namespace tern::engine {
namespace {

graph::Graph hidden_graph(const models::LoadedModel& model, const ScorerOptions& options) {
  graph::Graph graph;
  nn::Context context(graph, *model.store, scoring_build(options));
  graph.output("hidden", scored_rows(context, model, options.max_tokens));
  return graph;
}

graph::Graph head_graph(const models::LoadedModel& model, const ScorerOptions& options, tern_dtype dtype) {
  graph::Graph graph;
  nn::Context context(graph, *model.store, scoring_build(options));
  const nn::Value rows =
      nn::declare_row_input(graph, "hidden", dtype, NextTokenLogits::kBlock, model.config.hidden_size);
  graph.output("logits", nn::logits(context, model.architecture->head(model.config), rows));
  return graph;
}

}  // namespace

PackedLogits::PackedLogits(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime)
    : vocab_size_(static_cast<std::size_t>(model.config.vocab_size)) {
  const graph::Graph hidden = hidden_graph(model, options);
  const tern_dtype dtype = hidden.desc(hidden.outputs().front().value).dtype;
  row_bytes_ = static_cast<std::size_t>(model.config.hidden_size) * dtype_bytes(dtype);
  hidden_program_ = runtime.build(hidden, model.store);
  head_program_ = runtime.build(head_graph(model, options, dtype), model.store);
}

std::size_t PackedLogits::read(std::span<const std::int32_t> ids, const ScoreWindow& window) {
  const nn::TokenColumns columns = scored_columns(ids, window);
  graph::RunInputs run;
  nn::give_tokens(run, columns);
  hidden_program_->run(run);
  const auto hidden = hidden_program_->output("hidden");
  hidden_.assign(hidden.begin(), hidden.end());
  return columns.rows.size();
}

std::span<const float> PackedLogits::logits(std::size_t first, std::size_t count) {
  graph::RunInputs run;
  run.inputs["hidden"] = std::span<const std::byte>(hidden_).subspan(first * row_bytes_, count * row_bytes_);
  run.counts[nn::kRows] = static_cast<std::int64_t>(count);
  head_program_->run(run);
  const auto bytes = head_program_->output("logits");
  return {reinterpret_cast<const float*>(bytes.data()), count * vocab_size_};
}

}  // namespace tern::engine
