#include "engine/prompt_scorer.h"

#include <algorithm>

#include "engine/output_numbers.h"
#include "engine/step_inputs.h"
#include "nn/head.h"
#include "ops/sample.h"

namespace tern::engine {
namespace {

using ops::Value;

// Of each row the drawn token is the target, as its bias leaves no other a chance; log-probabilities know no bias.
constexpr float kCertain = 1e30F;

graph::Graph build_graph(const models::LoadedModel& model, const PromptScorerOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options.numerics;
  build.adapters = options.adapters;
  nn::Context context(graph, *model.store, build);
  const Value hidden =
      nn::declare_row_input(graph, "hidden", options.hidden.dtype, options.rows, options.hidden.shape[1]);
  const Value logits = nn::logits(context, model.architecture->head(model.config), hidden);
  const SamplingInputs in =
      declare_sampling(graph, options.rows, graph.desc(logits).shape[1], SamplingFeatures{.biases = 1});
  ops::SampleInputs sample = sample_inputs(in, logits);
  sample.tops = options.tops;
  const ops::SampleOut drawn = ops::sample(graph, sample, build.needs);
  graph.output("logprobs", drawn.logprob);
  if (options.tops == 0) return graph;
  graph.output("top_ids", drawn.top_ids);
  graph.output("top_logprobs", drawn.top_logprobs);
  return graph;
}

}  // namespace

PromptScorer::PromptScorer(models::LoadedModel& model, const PromptScorerOptions& options, session::Runtime& runtime,
                           std::shared_ptr<graph::Arena> arena)
    : rows_(options.rows),
      tops_(options.tops),
      program_(graph::Program::build(build_graph(model, options), model.store, runtime.choices, runtime.program,
                                     runtime.host, std::move(arena))) {}

void PromptScorer::score_piece(std::span<const std::byte> hidden, std::span<const std::int32_t> targets) {
  const std::vector<float> off(targets.size(), 0.0F), ones(targets.size(), 1.0F), certain(targets.size(), kCertain);
  const std::vector<std::int32_t> no_k(targets.size(), 0);
  graph::RunInputs run;
  run.inputs["hidden"] = hidden;
  run.inputs["bias_ids"] = std::as_bytes(targets);
  run.inputs["bias"] = nn::bytes_of(certain);
  for (const char* name : {"temperature", "min_p", "uniform"}) run.inputs[name] = nn::bytes_of(off);
  run.inputs["top_p"] = nn::bytes_of(ones);
  run.inputs["top_k"] = nn::bytes_of(no_k);
  run.counts[nn::kRows] = static_cast<std::int64_t>(targets.size());
  program_->run(run);
}

void PromptScorer::score(std::span<const std::byte> hidden, std::span<const std::int32_t> targets, std::int64_t tops,
                         std::vector<PromptLogprob>& out) {
  if (targets.empty()) return;
  const std::size_t row_bytes = hidden.size() / targets.size();
  const auto most = static_cast<std::size_t>(rows_);
  for (std::size_t begin = 0; begin < targets.size(); begin += most) {
    const std::size_t count = std::min(most, targets.size() - begin);
    score_piece(hidden.subspan(begin * row_bytes, count * row_bytes), targets.subspan(begin, count));
    for (std::size_t i = 0; i < count; ++i) {
      PromptLogprob& told = out.emplace_back();
      told.id = targets[begin + i];
      told.logprob = number_at<float>(program_->output("logprobs"), i);
      for (std::int64_t t = 0; t < std::min(tops, tops_); ++t) {
        const auto at = i * static_cast<std::size_t>(tops_) + static_cast<std::size_t>(t);
        told.top.push_back({number_at<std::int32_t>(program_->output("top_ids"), at),
                            number_at<float>(program_->output("top_logprobs"), at)});
      }
    }
  }
}

}  // namespace tern::engine
