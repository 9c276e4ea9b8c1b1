// Optimizer steps and evaluations of a pooled loss: all texts of the step forward, the loss on the host, and each
// micro-batch once more, forward and backward, with the loss's gradient.
//
// The second forward costs a third of a step and keeps the memory that of one micro-batch, however many texts are
// negatives of each other (Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
// 2021). Dropout draws the same bits in both, as its keys are the data's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/steps.h"
#include "train/micro_batch.h"
#include "train/tasks/pooled_loss.h"

namespace tern::train {

class PooledObjective {
 public:
  // `training`: as the run's own, with its dropout; nothing is trained by this runner's graphs. `loss` outlives it.
  PooledObjective(const PooledLoss& loss, const models::LoadedModel& model, TrainingGraphOptions training,
                  session::Runtime& runtime, std::shared_ptr<graph::Arena> arena);

  using OnMicroBatch = std::function<void(const data::MicroBatchPlan& micro, double output)>;

  // Adds the step's gradients, by the graphs of `backward`; gives the loss. `on_forward` gets each micro-batch with the
  // sum of its outputs, which isn't finite where one of them isn't.
  double step(const data::StepPlan& plan, const data::StepSource& source, const MicroBatchInputs& inputs,
              MicroBatchRunner& backward, const OnMicroBatch& on_forward);

  [[nodiscard]] MicroBatchRunner& forward() { return forward_; }

 private:
  const PooledLoss& loss_;
  MicroBatchRunner forward_;
};

struct PooledEvaluation {
  double loss = 0;  // the mean over the units of every batch
  Metrics metrics;
};
// Of all steps of a held-out set, each of which is a batch.
[[nodiscard]] PooledEvaluation evaluate_pooled(const PooledLoss& loss, data::StepSource& validation,
                                               const MicroBatchInputs& inputs, MicroBatchRunner& forward,
                                               const PooledObjective::OnMicroBatch& on_forward);

}  // namespace tern::train
