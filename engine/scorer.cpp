#include "engine/scorer.h"

#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "engine/non_finite_logit.h"
#include "nn/head.h"

namespace tern::engine {
namespace {

using ops::Value;

graph::Graph build_graph(const models::LoadedModel& model, const ScorerOptions& options) {
  graph::Graph graph;
  nn::Context context(graph, *model.store, scoring_build(options));
  const Value rows = scored_rows(context, model, options.max_tokens);
  const Value targets = nn::declare_row_input(graph, "targets", TERN_I32, options.max_tokens);
  const Value weights = nn::declare_row_input(graph, "weights", TERN_F32, options.max_tokens);
  ops::LinearCrossEntropyOptions wanted;
  wanted.row_statistics = true;
  const nn::Head head = model.architecture->head(model.config);
  const auto out = nn::cross_entropy(context, head, rows, targets, weights, wanted);
  graph.output("row_max", out.row_max);
  graph.output("row_sum", out.row_sum);
  graph.output("row_target", out.row_target);
  return graph;
}

float float_at(std::span<const std::byte> bytes, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

}  // namespace

Scorer::Scorer(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime)
    : program_(runtime.build(build_graph(model, options), model.store)) {}

std::vector<double> Scorer::score(std::span<const std::int32_t> ids, const ScoreWindow& window) {
  if (window.first >= window.end) return {};
  const nn::TokenColumns columns = scored_columns(ids, window);
  const auto scored = ids.subspan(window.first, window.end - window.first);
  const std::vector<std::int32_t> targets(scored.begin(), scored.end());
  const std::vector<float> weights(columns.rows.size(), 1.0F);
  graph::RunInputs run;
  nn::give_tokens(run, columns);
  run.inputs["targets"] = nn::bytes_of(targets);
  run.inputs["weights"] = nn::bytes_of(weights);
  program_->run(run);
  std::vector<double> out(columns.rows.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(float_at(program_->output("row_target"), i)) -
             static_cast<double>(float_at(program_->output("row_max"), i)) -
             std::log(static_cast<double>(float_at(program_->output("row_sum"), i)));
    if (std::isfinite(out[i])) continue;
    throw Failure(non_finite_logit(cat("token ", window.first + i), out[i]));
  }
  return out;
}

}  // namespace tern::engine
