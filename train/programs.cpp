#include "train/programs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "train/trainer.h"

namespace tern::train {
namespace {

Capacity capacity_of(const data::StepSource& steps) {
  const data::MicroBatchBounds bounds = steps.bounds();
  return {bounds.tokens, bounds.samples, bounds.supervised, bounds.longest};
}

// The mean of a step's micro-batches: kernels are chosen for it, not for the longest sample that there is.
std::int64_t typical_tokens(data::StepSource& steps) {
  const data::StepPlan first = steps.plan(0, 0);
  std::uint64_t tokens = 0;
  for (const auto& micro : first.micro_batches) tokens += micro.tokens;
  return static_cast<std::int64_t>(tokens / std::max<std::size_t>(first.micro_batches.size(), 1));
}

// Tokens of the micro-batches of the steps [begin, end), where a program is made for each size.
std::set<std::int64_t> tokens_of(data::StepSource& steps, std::int64_t begin, std::int64_t end,
                                 const accel::Device& device) {
  std::set<std::int64_t> sizes;
  if (device.can(TERN_CAP_DYNAMIC_SHAPES)) return sizes;
  const auto per_epoch = static_cast<std::int64_t>(steps.steps_per_epoch().value_or(0));
  for (std::int64_t step = begin; step < end && per_epoch > 0; ++step) {
    const data::StepPlan plan =
        steps.plan(static_cast<std::uint64_t>(step / per_epoch), static_cast<std::uint64_t>(step % per_epoch));
    for (const auto& micro : plan.micro_batches) sizes.insert(static_cast<std::int64_t>(micro.tokens));
  }
  return sizes;
}

}  // namespace

std::int64_t steps_in_all(const TrainerOptions& options, const data::StepSource& training) {
  if (options.max_steps > 0) return options.max_steps;
  const auto per_epoch = training.steps_per_epoch();
  if (!per_epoch) throw std::logic_error("a stream has no epochs to count: max_steps is needed");
  return static_cast<std::int64_t>(std::ceil(options.num_train_epochs * static_cast<double>(*per_epoch)));
}

RunSizes sizes_of(data::StepSource& training, data::StepSource* held_out, const accel::Device& device,
                  std::int64_t begin, std::int64_t end) {
  RunSizes sizes;
  sizes.streams = !training.steps_per_epoch();
  sizes.training = {capacity_of(training), 0, tokens_of(training, begin, end, device)};
  if (!sizes.streams) sizes.training.typical_tokens = typical_tokens(training);
  if (held_out == nullptr) return sizes;
  const auto steps = static_cast<std::int64_t>(held_out->steps_per_epoch().value_or(0));
  sizes.held_out = {capacity_of(*held_out), typical_tokens(*held_out), tokens_of(*held_out, 0, steps, device)};
  return sizes;
}

// Training's needs the most of the arena, so it comes first; all are made now, before the first step.
RunPrograms make_programs(const models::LoadedModel& model, TrainerOptions& options, const RunSizes& sizes,
                          session::Runtime& runtime) {
  RunPrograms made;
  made.arena = std::make_shared<graph::Arena>(model.store->allocator());
  options.graph.capacity = sizes.training.largest;
  options.graph.typical_tokens = sizes.training.typical_tokens;
  TrainingGraphOptions training = options.graph;
  if (options.lisa) {
    made.layers.emplace(*options.lisa, model.config.num_hidden_layers, options.seed, options.graph.trainable);
    training.trainable = made.layers->parameters_at(0);
    options.optimizer.at_first = training.trainable;
  }
  made.optimizer =
      std::make_unique<Optimizer>(model.store, options.graph.trainable, options.optimizer, runtime, made.arena);
  made.runner = std::make_unique<MicroBatchRunner>(model, std::move(training), runtime, made.arena);
  if (sizes.streams) made.runner->grow_from(sizes.grow_from);
  (void)made.runner->prepare();
  if (models::has_magnitudes(options.graph.adapters)) {
    made.norms = std::make_unique<models::RowNorms>(
        model.store, options.graph.adapters,
        [&](const graph::Graph& graph) { return runtime.build(graph, model.store, made.arena); });
  }
  if (options.pooled_loss) {
    made.pooled = std::make_unique<PooledObjective>(*options.pooled_loss, model, options.graph, runtime, made.arena);
    (void)made.pooled->forward().prepare();
  }
  if (sizes.held_out) {
    TrainingGraphOptions eval = options.graph;
    eval.trainable.clear();
    eval.dropout = false;
    eval.capacity = sizes.held_out->largest;
    eval.typical_tokens = sizes.held_out->typical_tokens;
    made.eval_runner = std::make_unique<MicroBatchRunner>(model, eval, runtime, made.arena);
    (void)made.eval_runner->prepare();
  }
  // Those that a larger one can stand in for come last.
  made.runner->prepare(sizes.training.tokens);
  if (made.pooled) made.pooled->forward().prepare(sizes.training.tokens);
  if (made.eval_runner) made.eval_runner->prepare(sizes.held_out->tokens);
  return made;
}

void train_only(Optimizer& optimizer, MicroBatchRunner& runner, const std::vector<std::string>& parameters,
                const std::map<std::string, std::int64_t>& missed, const std::set<std::int64_t>& tokens) {
  runner.train(parameters);  // its programs are bound to the gradients
  optimizer.train_only(parameters, missed);
  (void)runner.prepare();
  runner.prepare(tokens);
}

}  // namespace tern::train
