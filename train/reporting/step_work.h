// What a micro-batch takes at least: the numerator of MFU (Chowdhery et al., "PaLM", 2022, appendix B).
#pragma once

#include "data/micro_batch.h"
#include "graph/graph.h"
#include "train/training_graph.h"

namespace tern::train {

class StepWork {
 public:
  // Counts the ops of the graph that computes nothing twice: recomputing saves memory, and is no use of the device.
  StepWork(const models::LoadedModel& model, TrainingGraphOptions options);

  // FLOPs of the forward and the backward over its actual tokens.
  [[nodiscard]] double flops(const data::MicroBatch& batch) const;

 private:
  graph::Graph graph_;
};

}  // namespace tern::train
