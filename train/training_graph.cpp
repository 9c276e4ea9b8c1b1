#include "train/training_graph.h"

#include "base/strings.h"
#include "graph/differentiate.h"
#include "train/loss.h"

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

}  // namespace

bool has_noise(const TrainingGraphOptions& options) {
  return options.neftune_noise_alpha > 0 && !options.trainable.empty();
}

std::string gradient_name(const std::string& parameter) { return "gradient/" + parameter; }

graph::Graph build_training_graph(const models::LoadedModel& model, const TrainingGraphOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options.numerics;
  build.training = !options.trainable.empty();
  build.lora_dropout = options.dropout ? options.lora_dropout : 0.0F;
  build.adapters = options.adapters;
  nn::Context context(graph, *model.store, build);

  const nn::TokenInputs inputs = token_inputs(graph, options);
  if (has_noise(options)) {
    TensorDesc noise = make_desc(TERN_F32, {options.capacity.tokens, model.config.hidden_size});
    noise.dynamic_dim = 0;
    noise.count_slot = nn::kTokens;
    context.embedding_noise = graph.input("embedding_noise", noise);
  }
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
    const graph::Root roots[] = {{.value = loss}};
    (void)graph::differentiate(graph, roots, grads, segments);
  }
  return graph;
}

}  // namespace tern::train
