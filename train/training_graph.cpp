#include "train/training_graph.h"

#include <algorithm>

#include "base/strings.h"
#include "graph/differentiate.h"
#include "ops/gather_rows.h"
#include "ops/linear_cross_entropy.h"

namespace tern::train {
namespace {

using graph::Padding;
using ops::Value;

nn::TokenInputs token_inputs(graph::Graph& graph, const TrainingGraphOptions& options) {
  nn::TokenCapacity capacity;
  capacity.tokens = options.capacity.tokens;
  capacity.sequences = options.capacity.sequences;
  capacity.max_seqlen = options.capacity.max_seqlen;
  capacity.dropout = options.dropout;
  return nn::declare_tokens(graph, capacity);
}

bool is_trained(const TrainingGraphOptions& options, const std::string& name) {
  return std::find(options.trainable.begin(), options.trainable.end(), name) != options.trainable.end();
}

}  // namespace

std::string gradient_name(const std::string& parameter) { return "gradient/" + parameter; }

graph::Graph build_training_graph(const models::LoadedModel& model, const TrainingGraphOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  build.compute = options.compute;
  build.training = !options.trainable.empty();
  build.lora_dropout = options.dropout ? options.lora_dropout : 0.0F;
  build.adapters = options.adapters;
  nn::Context context(graph, *model.store, build);

  const nn::TokenInputs inputs = token_inputs(graph, options);
  const std::int64_t rows = options.capacity.loss_rows;
  const Value loss_rows =
      graph.input("loss_rows", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows), Padding::minus_one);
  const Value targets = graph.input("targets", with_dynamic(make_desc(TERN_I32, {rows}), 0, kLossRows));
  const Value weights = graph.input("loss_weights", with_dynamic(make_desc(TERN_F32, {rows}), 0, kLossRows));

  std::map<std::string, Value> accumulators;
  for (const std::string& name : options.trainable) {
    accumulators[name] = graph.resource(gradient_name(name), make_desc(TERN_F32, shape_of(model.store->at(name).desc)));
  }
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  // Only positions that predict a supervised token go through the head: its cost is that of the answer, not the prompt.
  const Value supervised = ops::gather_rows(graph, hidden, loss_rows, build.needs);
  const std::string head = models::lm_head_weight(model.config);
  ops::LinearCrossEntropyOptions loss_options;
  loss_options.compute = options.compute;
  loss_options.dh = build.training;
  loss_options.needs = build.needs;
  if (is_trained(options, head)) {
    loss_options.dw = true;
    loss_options.dw_into = accumulators.at(head);
  }
  const auto loss = ops::linear_cross_entropy(graph, supervised, context.weight(head), targets, weights, loss_options);
  graph.output("loss", loss.loss);

  if (build.training) {
    std::vector<graph::GradTarget> grads;
    for (const std::string& name : options.trainable) {
      grads.push_back({context.weight(name), accumulators.at(name)});
    }
    std::vector<graph::RecomputeSegment> segments;
    if (options.gradient_checkpointing) segments = context.layers();
    (void)graph::differentiate(graph, loss.loss, grads, segments);
  }
  return graph;
}

}  // namespace tern::train
