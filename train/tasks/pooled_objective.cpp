#include "train/tasks/pooled_objective.h"

#include <numeric>

namespace tern::train {
namespace {

TrainingGraphOptions forward_options(TrainingGraphOptions options) {
  options.trainable.clear();
  options.gradient_checkpointing = false;
  return options;
}

// The outputs of a micro-batch, appended to `texts`.
void forward_of(const data::MicroBatchPlan& micro, const data::StepSource& source, const MicroBatchInputs& inputs,
                MicroBatchRunner& runner, const PooledObjective::OnMicroBatch& on_forward, PooledTexts& texts) {
  const data::MicroBatch batch = source.gather(micro);
  const std::vector<float> outputs = runner.run_pooled(batch, inputs);
  on_forward(micro, std::accumulate(outputs.begin(), outputs.end(), 0.0));
  texts.append(batch, outputs);
}

}  // namespace

PooledObjective::PooledObjective(const PooledLoss& loss, const models::LoadedModel& model,
                                 TrainingGraphOptions training, session::Runtime& runtime,
                                 std::shared_ptr<graph::Arena> arena)
    : loss_(loss), forward_(model, forward_options(std::move(training)), runtime, std::move(arena)) {}

double PooledObjective::step(const data::StepPlan& plan, const data::StepSource& source, const MicroBatchInputs& inputs,
                             MicroBatchRunner& backward, const OnMicroBatch& on_forward) {
  PooledTexts texts;
  for (const auto& micro : plan.micro_batches) {
    if (!micro.samples.empty()) forward_of(micro, source, inputs, forward_, on_forward, texts);
  }
  if (texts.size() == 0) return 0;
  const PooledLossValue value = loss_.value(texts);
  std::size_t first = 0;
  for (const auto& micro : plan.micro_batches) {
    if (micro.samples.empty()) continue;
    std::vector<float> gradient(micro.samples.size() * texts.width);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>(value.gradient[first + i] * inputs.loss_scale);
    first += gradient.size();
    (void)backward.run_pooled(source.gather(micro), inputs, gradient);
  }
  return value.loss;
}

PooledEvaluation evaluate_pooled(const PooledLoss& loss, data::StepSource& validation, const MicroBatchInputs& inputs,
                                 MicroBatchRunner& forward, const PooledObjective::OnMicroBatch& on_forward) {
  PooledEvaluation out;
  PooledTexts all;
  double units = 0;
  for (std::uint64_t step = 0; step < *validation.steps_per_epoch(); ++step) {
    const data::StepPlan plan = validation.plan(0, step);
    PooledTexts texts;
    for (const auto& micro : plan.micro_batches) {
      if (micro.samples.empty()) continue;
      forward_of(micro, validation, inputs, forward, on_forward, texts);
    }
    const PooledLossValue value = loss.value(texts);
    out.loss += value.loss * value.units;
    units += value.units;
    all.append(texts);
  }
  if (units > 0) out.loss /= units;
  out.metrics = loss.metrics(all);
  return out;
}

}  // namespace tern::train
