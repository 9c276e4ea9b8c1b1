// One micro-batch through a training or evaluation program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/micro_batch.h"
#include "graph/finite_probe.h"
#include "graph/program.h"
#include "session/runtime.h"
#include "train/hits.h"
#include "train/training_graph.h"

namespace tern::train {

struct MicroBatchInputs {
  std::uint64_t seed = 42;  // of dropout
  std::uint64_t epoch = 0;
  double loss_divisor = 1;  // the whole step's number of supervised tokens, over every micro-batch and rank
  double loss_scale = 1;    // a power of two that gradients come multiplied by (loss_scale.h)
};

// Keeps programs for the sizes that occur: one at the largest size where the device computes no padding, else one a
// bucket.
class MicroBatchRunner {
 public:
  // `arena`: what its programs share, with others too where given.
  MicroBatchRunner(const models::LoadedModel& model, TrainingGraphOptions options, session::Runtime& runtime,
                   std::shared_ptr<graph::Arena> arena = nullptr);

  // Runs forward (and backward); gives the sum over supervised tokens of weight / divisor * cross entropy.
  double run(const data::MicroBatch& batch, const MicroBatchInputs& inputs);

  // Of the runs since the last call; all 0 where the loss has no such thing, or the device can't tell.
  [[nodiscard]] Hits take_hits() { return std::exchange(hits_, {}); }
  // Of graphs with pooled outputs: gives these, [samples, width]. One that trains something takes the loss's gradient
  // by them, of the same shape, and adds the parameters'; `run` takes it as zeros.
  std::vector<float> run_pooled(const data::MicroBatch& batch, const MicroBatchInputs& inputs,
                                std::span<const float> gradient = {});

  // Runs it once more, each op alone, and gives the first result that isn't finite; none where all are. Gradients are
  // added to again. Throws Failure where the device lacks memory for another program.
  [[nodiscard]] std::optional<graph::NonFinite> first_non_finite(const data::MicroBatch& batch,
                                                                 const MicroBatchInputs& inputs);

  // Takes the gradients of these alone from here on; its programs go, and are built as they're needed.
  void train(std::vector<std::string> parameters);

  // Builds the program of the largest size now, so that what it lacks shows before the first step.
  const graph::Program& prepare();
  // And those that micro-batches of so many tokens need.
  void prepare(const std::set<std::int64_t>& sizes);
  // Plans for no more than was met, from here up to the capacity: of a stream nobody knows its longest sample before
  // its end. On a device that computes no padding, one program that is built anew as micro-batches grow.
  void grow_from(std::int64_t tokens) { grown_ = std::max(tokens, kSmallestBucket); }
  [[nodiscard]] std::int64_t grown() const { return grown_; }  // 0: does not grow

 private:
  static constexpr std::int64_t kSmallestBucket = 128;  // tokens

  graph::Program& program_for(const Capacity& needed);
  // Those of `tokens` that no loss has a say in.
  void fill_tokens(const data::MicroBatch& batch, const MicroBatchInputs& inputs, nn::TokenColumns& tokens) const;

  const models::LoadedModel& model_;
  TrainingGraphOptions options_;  // capacity: the largest
  session::Runtime& runtime_;
  std::shared_ptr<graph::Arena> arena_;
  std::map<std::int64_t, std::shared_ptr<graph::Program>> programs_;  // by tokens
  std::int64_t grown_ = 0;
  Hits hits_;
};

// The key of a token's dropout: depends on what it is, never on the batch that it lies in.
[[nodiscard]] std::int64_t dropout_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
                                       std::uint64_t position);

}  // namespace tern::train
