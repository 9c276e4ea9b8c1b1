// Which samples make up an optimizer step. What is laid out as one unit is a group (data/column.h): mostly one sample.
//
// A step's plan is made before it runs and depends on (options, dataset lengths, epoch, step) only: it holds every
// micro-batch of every rank and the number of supervised tokens, by which the loss is divided once. How a step's
// samples fall into micro-batches and ranks changes neither its samples nor that total.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "data/sample.h"

namespace tern::data {

struct BatchOptions {
  std::uint32_t per_device_batch_size = 1;  // groups a micro-batch; with packing, packs
  std::uint32_t accumulation = 1;           // micro-batches a rank and step
  std::uint32_t world = 1;                  // data-parallel ranks
  bool packing = false;
  std::uint32_t packing_length = 0;  // tokens a pack holds at most
  bool group_by_length = false;
  bool shuffle = true;  // false: dataset order in every epoch
  std::uint64_t seed = 42;
};

struct MicroBatchPlan {
  std::vector<std::uint32_t> samples;  // ids in the dataset; groups whole
  std::uint32_t tokens = 0;
};

struct StepPlan {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // within the epoch
  std::vector<MicroBatchPlan>
      micro_batches;                    // [accumulation * world] or fewer at an epoch's end; i is rank i % world's
  std::uint64_t tokens = 0;             // over all micro-batches and ranks
  std::uint64_t supervised_tokens = 0;  // targets of weight above 0
  double weight = 0;                    // sum of the targets' weights
  bool last = false;                    // the epoch ends with it

  // Rank `rank`'s micro-batches in order. Ranks may differ by one at an epoch's end.
  [[nodiscard]] std::vector<const MicroBatchPlan*> of_rank(std::uint32_t rank, std::uint32_t world) const;
};

class BatchPlanner {
 public:
  // The dataset outlives the planner. Errors: zero sizes; packing without a length, or one that a sample exceeds.
  [[nodiscard]] static Result<BatchPlanner> create(const EncodedDataset& dataset, const BatchOptions& options);

  // Micro-batches and steps an epoch; the last step may be smaller.
  [[nodiscard]] std::uint64_t micro_batches_per_epoch() const;
  [[nodiscard]] std::uint64_t steps_per_epoch() const;
  // The plan of step `step` < steps_per_epoch() of `epoch`. Remembers the epoch's order, so call it from one thread.
  [[nodiscard]] StepPlan plan(std::uint64_t epoch, std::uint64_t step);

  // Packs (one group each without packing) and the share of packing_length that they fill.
  [[nodiscard]] std::uint64_t packs() const { return units(); }
  [[nodiscard]] double packing_efficiency() const;

 private:
  BatchPlanner(const EncodedDataset& dataset, BatchOptions options) : dataset_(&dataset), options_(options) {}
  [[nodiscard]] std::uint64_t units() const;
  [[nodiscard]] std::uint32_t unit_length(std::uint32_t unit) const;
  [[nodiscard]] std::uint64_t step_units() const;
  void group_by_length(std::uint64_t epoch);
  void append_unit(MicroBatchPlan& plan, std::uint32_t unit) const;

  const EncodedDataset* dataset_;
  BatchOptions options_;
  std::vector<std::uint32_t> pack_begin_;   // [packs + 1] into pack_samples_; empty without packing
  std::vector<std::uint32_t> pack_groups_;  // groups, ascending in each pack
  std::vector<std::uint32_t> order_;        // units of epoch `ordered_`, only for group_by_length
  std::vector<std::uint32_t> steps_;        // the steps' order among groups of that epoch
  std::uint64_t ordered_ = ~std::uint64_t{0};
};

// Best fit decreasing: each length, longest first, goes into the fullest bin of `capacity` that still takes it. Gives
// the bins, each ascending, in the order of their first element. Lengths above `capacity` get a bin of their own. O(n
// log n).
[[nodiscard]] std::vector<std::vector<std::uint32_t>> best_fit(std::span<const std::uint32_t> lengths,
                                                               std::uint32_t capacity);

}  // namespace tern::data
