#include "train/training_graph.h"

#include "base/strings.h"
#include "graph/differentiate.h"
#include "train/loss.h"

namespace tern::train {
namespace {

using graph::Padding;
using ops::Value;

nn::TokenInputs token_inputs(graph::Graph& graph, const TrainingGraphOptions& options) {
  const Capacity& capacity = options.capacity;
  nn::TokenInputs inputs;
  inputs.ids = graph.input("ids", with_dynamic(make_desc(TERN_I32, {capacity.tokens}), 0, kTokens));
  inputs.positions = graph.input("positions", with_dynamic(make_desc(TERN_I32, {capacity.tokens}), 0, kTokens));
  inputs.cu_seqlens =
      graph.input("cu_seqlens", with_dynamic(make_desc(TERN_I32, {capacity.sequences + 1}), 0, kSequenceBounds),
                  Padding::repeat_last);
  if (options.dropout) {
    inputs.dropout_keys = graph.input("dropout_keys", with_dynamic(make_desc(TERN_I64, {capacity.tokens}), 0, kTokens));
  }
  inputs.max_seqlen = capacity.max_seqlen;
  return inputs;
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
  std::map<std::string, Value> accumulators;
  for (const std::string& name : options.trainable) {
    accumulators[name] = graph.resource(gradient_name(name), make_desc(TERN_F32, shape_of(model.store->at(name).desc)));
  }
  const Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  const LossContext at{context, model, options, hidden, accumulators};
  const Value loss = find_loss(options.loss).value()->build(at);
  graph.output("loss", loss);

  if (build.training) {
    std::vector<graph::GradTarget> grads;
    for (const std::string& name : options.trainable) {
      grads.push_back({context.weight(name), accumulators.at(name)});
    }
    std::vector<graph::RecomputeSegment> segments;
    if (options.gradient_checkpointing) segments = context.layers();
    (void)graph::differentiate(graph, loss, grads, segments);
  }
  return graph;
}

}  // namespace tern::train
