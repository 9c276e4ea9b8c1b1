// LoRA-GA (Wang, Yu and Li, "LoRA-GA: Low-Rank Adaptation with Gradient Approximation", 2024): new pairs begin as
// singular vectors of the gradients that the weights have before training. The model itself begins as it is
// (initial_pairs.h).
#pragma once

#include <cstdint>

#include "data/batch.h"
#include "data/sample.h"
#include "models/adapter.h"
#include "models/low_rank.h"
#include "session/runtime.h"
#include "train/training_graph.h"

namespace tern::train {

struct LoraGaOptions {
  // Of an adapter that is told none: as ms-swift's peer has it, with no dropout, which would be noise of the size of
  // what the adapter begins as.
  static constexpr double kAlpha = 8;

  std::int64_t batch_size = 2;     // samples, whose supervised tokens are averaged
  std::int64_t iters = 2;          // batches, whose gradients are averaged
  std::int64_t max_length = 1024;  // tokens of a sample; more are left out
  models::GradientStart start;
  std::uint64_t gradient_bytes = std::uint64_t{2} << 30;  // kept at a time, or those of one weight; more take more runs
};

// The samples that the run begins with, by its order, cut to max_length. `batches`: the run's. Errors (usage): there
// are fewer than batch_size times iters.
[[nodiscard]] data::EncodedDataset gradient_samples(const data::EncodedDataset& samples,
                                                    const data::BatchOptions& batches, const LoraGaOptions& options);

// Fills the pairs of the adapter's linear layers, and what they began as, by the model without it. `graph`: the run's,
// without what it trains; `longest`: tokens that a sample has at most. Over a store that only counts, `samples` isn't
// looked at. Throws Failure: usage (a rank above half the smaller side of a weight, quantised weights), device.
void init_by_gradients(const models::LoadedModel& model, const models::LoadedAdapter& adapter,
                       const data::EncodedDataset& samples, const LoraGaOptions& options, TrainingGraphOptions graph,
                       std::int64_t longest, std::uint64_t seed, session::Runtime& runtime);

}  // namespace tern::train
