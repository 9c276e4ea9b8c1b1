// The error that ends training where a loss or a gradient isn't finite: it names the step, the samples and the op.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "data/steps.h"
#include "train/micro_batch.h"
#include "train/optimizer.h"

namespace tern::train {

struct FailedStep {
  std::int64_t step = 0;     // from 1; of held-out rows, the steps done
  MicroBatchRunner& runner;  // that ran it
  const data::StepSource& source;
  MicroBatchInputs inputs;
  bool held_out = false;
};

// `micro` gave `loss`, which isn't finite. It runs once more to find where that began; gradients are added to again.
[[nodiscard]] Error non_finite_loss(const FailedStep& failed, const data::MicroBatchPlan& micro, double loss);

// The step's accumulated gradients have the norm `norm`, which isn't finite. Its micro-batches run once more, one after
// the other, to find the one at fault. Gradients are zero afterwards; weights and moments are as they were.
[[nodiscard]] Error non_finite_gradient(const FailedStep& failed, const data::StepPlan& plan, Optimizer& optimizer,
                                        double norm);

}  // namespace tern::train
