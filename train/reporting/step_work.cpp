#include "train/reporting/step_work.h"

#include <algorithm>

#include "graph/work.h"
#include "nn/token_inputs.h"
#include "ops/table.h"

namespace tern::train {
namespace {

graph::Graph graph_of(const models::LoadedModel& model, TrainingGraphOptions options) {
  options.gradient_checkpointing = false;
  return build_training_graph(model, options);
}

std::int64_t supervised(const data::MicroBatch& batch) {
  const auto labels = batch.values<std::int32_t>(data::kLabels);
  const auto weights = batch.values<float>(data::kLossWeights);
  std::int64_t count = 0;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] != data::kNoLabel && weights[t] != 0.0F) ++count;
  }
  return count;
}

}  // namespace

StepWork::StepWork(const models::LoadedModel& model, TrainingGraphOptions options)
    : graph_(graph_of(model, std::move(options))) {}

double StepWork::flops(const data::MicroBatch& batch) const {
  graph::Counts counts{};
  counts[nn::kTokens] = static_cast<std::int64_t>(batch.tokens());
  counts[nn::kSequences] = static_cast<std::int64_t>(batch.samples());
  counts[nn::kSequenceBounds] = counts[nn::kSequences] + 1;
  counts[kLossRows] = supervised(batch);
  const tern_host_array bounds{batch.cu_seqlens.data(), static_cast<std::int64_t>(batch.cu_seqlens.size())};
  double sum = 0;
  for (const graph::Node& node : graph_.nodes()) {
    // Every length that training tells an op is the samples' bounds.
    const std::vector<tern_host_array> lengths(static_cast<std::size_t>(ops::op_spec(node.call.op).num_lengths()),
                                               bounds);
    sum += graph::work_of(graph_, node, counts, lengths).flops;
  }
  return sum;
}

}  // namespace tern::train
