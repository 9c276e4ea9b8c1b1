#include "train/training_graph.h"

#include "base/strings.h"
#include "graph/differentiate.h"
#include "train/expert_balance.h"
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
  if (options.pooled && options.pooled->pooling != models::Pooling::mean) capacity.rows = options.capacity.sequences;
  return nn::declare_tokens(graph, capacity);
}

graph::Root loss_root(const LossContext& at) {
  const Value loss = find_loss(at.options.loss).value()->build(at);
  at.nn.graph().output("loss", loss);
  return {.value = loss};
}

// Its gradient comes from the host.
graph::Root pooled_root(nn::Context& context, const models::LoadedModel& model, const TrainingGraphOptions& options,
                        const nn::TokenInputs& inputs, Value hidden) {
  graph::Graph& graph = context.graph();
  const Value pooled = models::pooled_output(context, model, pooled_options(options), inputs, hidden);
  graph.output("pooled", pooled);
  graph::Root root{.value = pooled};
  if (!options.trainable.empty()) root.gradient = graph.input("pooled_gradient", graph.desc(pooled));
  return root;
}

}  // namespace

bool has_noise(const TrainingGraphOptions& options) {
  return options.neftune_noise_alpha > 0 && (!options.trainable.empty() || options.routes_only);
}

models::PooledOutputOptions pooled_options(const TrainingGraphOptions& options) {
  models::PooledOutputOptions out;
  out.pooling = options.pooled->pooling;
  out.output = options.pooled->output;
  out.yes = options.pooled->yes;
  out.no = options.pooled->no;
  out.max_tokens = options.capacity.tokens;
  out.max_texts = options.capacity.sequences;
  out.needs = options.numerics.needs;
  return out;
}

std::string gradient_name(const std::string& parameter) { return "gradient/" + parameter; }

graph::Graph build_training_graph(const models::LoadedModel& model, const TrainingGraphOptions& options) {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options.numerics;
  build.training = !options.trainable.empty() || options.dropout;
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
  std::vector<graph::Root> roots;
  if (options.pooled) {
    roots.push_back(pooled_root(context, model, options, inputs, hidden));
  } else if (!options.routes_only) {
    roots.push_back(loss_root({context, model, options, hidden, accumulators}));
  }
  if (options.router_aux_loss_coef > 0) add_expert_balance(context, !options.trainable.empty(), roots);

  if (!options.trainable.empty()) {
    std::vector<graph::GradTarget> grads;
    for (const std::string& name : options.trainable) {
      grads.push_back({context.weight(name), accumulators.at(name)});
    }
    std::vector<graph::RecomputeSegment> segments;
    if (options.gradient_checkpointing) segments = context.layers();
    (void)graph::differentiate(graph, roots, grads, segments);
  }
  return graph;
}

}  // namespace tern::train
