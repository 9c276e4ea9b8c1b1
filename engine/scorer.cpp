#include "engine/scorer.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/gather_rows.h"
#include "ops/linear_cross_entropy.h"

namespace tern::engine {
namespace {

using graph::Padding;
using ops::Value;

enum CountSlot { kTokens = 0, kSequenceBounds = 1, kRows = 2 };

graph::Graph build_graph(const models::LoadedModel& model, const ScorerOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  build.compute = options.compute;
  build.adapters = options.adapters;
  nn::Context context(graph, *model.store, build);
  const auto ints = [&](const char* name, std::int64_t count, int slot, Padding padding) {
    return graph.input(name, with_dynamic(make_desc(TERN_I32, {count}), 0, slot), padding);
  };
  nn::TokenInputs inputs;
  inputs.ids = ints("ids", options.max_tokens, kTokens, Padding::zero);
  inputs.positions = ints("positions", options.max_tokens, kTokens, Padding::zero);
  inputs.cu_seqlens = ints("cu_seqlens", 2, kSequenceBounds, Padding::repeat_last);
  inputs.max_seqlen = options.max_tokens;
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  const Value rows =
      ops::gather_rows(graph, hidden, ints("rows", options.max_tokens, kRows, Padding::minus_one), build.needs);
  const Value targets = ints("targets", options.max_tokens, kRows, Padding::zero);
  const Value weights = graph.input("weights", with_dynamic(make_desc(TERN_F32, {options.max_tokens}), 0, kRows));
  ops::LinearCrossEntropyOptions loss;
  loss.compute = options.compute;
  loss.row_statistics = true;
  loss.needs = build.needs;
  const auto out = ops::linear_cross_entropy(graph, rows, context.weight(models::lm_head_weight(model.config)), targets,
                                             weights, loss);
  graph.output("row_max", out.row_max);
  graph.output("row_sum", out.row_sum);
  graph.output("row_target", out.row_target);
  return graph;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

float float_at(std::span<const std::byte> bytes, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

}  // namespace

Scorer::Scorer(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime)
    : program_(runtime.build(build_graph(model, options), model.store)) {}

std::vector<double> Scorer::score(std::span<const std::int32_t> ids) {
  if (ids.size() < 2) return {};
  const std::vector<std::int32_t> tokens(ids.begin(), ids.end());
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<std::int32_t> cu_seqlens = {0, static_cast<std::int32_t>(ids.size())};
  const std::vector<std::int32_t> rows(positions.begin(), positions.end() - 1);
  const std::vector<std::int32_t> targets(ids.begin() + 1, ids.end());
  const std::vector<float> weights(rows.size(), 1.0F);
  graph::RunInputs run;
  run.inputs = {{"ids", bytes_of(tokens)}, {"positions", bytes_of(positions)}, {"cu_seqlens", bytes_of(cu_seqlens)},
                {"rows", bytes_of(rows)},  {"targets", bytes_of(targets)},     {"weights", bytes_of(weights)}};
  run.counts[kTokens] = static_cast<std::int64_t>(ids.size());
  run.counts[kSequenceBounds] = 2;
  run.counts[kRows] = static_cast<std::int64_t>(rows.size());
  program_->run(run);
  std::vector<double> out(rows.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(float_at(program_->output("row_target"), i)) -
             static_cast<double>(float_at(program_->output("row_max"), i)) -
             std::log(static_cast<double>(float_at(program_->output("row_sum"), i)));
  }
  return out;
}

}  // namespace tern::engine
