// Where the steps of training come from: a set in hand, or a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/batch.h"
#include "data/micro_batch.h"
#include "data/settings.h"
#include "data/stream.h"

namespace tern::data {

// The largest micro-batch that there can be.
struct MicroBatchBounds {
  std::int64_t tokens = 0;
  std::int64_t samples = 0;
  std::int64_t supervised = 0;  // tokens of weight above 0
  std::int64_t longest = 0;     // tokens of one sample
};

inline constexpr const char* kDatasetSetting = "dataset";  // its value tells the rows' content

class StepSource {
 public:
  virtual ~StepSource() = default;
  // What decides the sequence of steps: equal where it is. Reads the samples of a set, else the beginnings of the
  // files.
  [[nodiscard]] virtual Settings identity() const = 0;
  [[nodiscard]] virtual const BatchOptions& batches() const = 0;
  [[nodiscard]] virtual MicroBatchBounds bounds() const = 0;
  // Steps an epoch; nothing where only its end will tell.
  [[nodiscard]] virtual std::optional<std::uint64_t> steps_per_epoch() const = 0;
  // The step at a place. Steps are asked for in order, the first of them anywhere. Throws Failure.
  [[nodiscard]] virtual StepPlan plan(std::uint64_t epoch, std::uint64_t step) = 0;
  // The tokens of a micro-batch of the newest plan.
  [[nodiscard]] virtual MicroBatch gather(const MicroBatchPlan& plan) const = 0;
  // Where a sample of the newest plan (MicroBatchPlan::samples) came from: `data/train.jsonl:17`.
  [[nodiscard]] virtual std::string place(std::uint32_t sample) const = 0;
};

// The steps of a set, which outlives them.
class SetSteps final : public StepSource {
 public:
  // Errors: as BatchPlanner::create().
  [[nodiscard]] static Result<SetSteps> create(const EncodedDataset& dataset, const BatchOptions& options);

  [[nodiscard]] Settings identity() const override;
  [[nodiscard]] const BatchOptions& batches() const override { return options_; }
  [[nodiscard]] MicroBatchBounds bounds() const override;
  [[nodiscard]] std::optional<std::uint64_t> steps_per_epoch() const override { return planner_.steps_per_epoch(); }
  [[nodiscard]] StepPlan plan(std::uint64_t epoch, std::uint64_t step) override { return planner_.plan(epoch, step); }
  [[nodiscard]] MicroBatch gather(const MicroBatchPlan& plan) const override { return data::gather(*dataset_, plan); }
  [[nodiscard]] std::string place(std::uint32_t sample) const override { return dataset_->place(sample); }

 private:
  SetSteps(const EncodedDataset& dataset, BatchOptions options, BatchPlanner planner)
      : dataset_(&dataset), options_(options), planner_(std::move(planner)) {}
  const EncodedDataset* dataset_;
  BatchOptions options_;
  BatchPlanner planner_;
};

struct StreamStepOptions {
  BatchOptions batches;         // without group_by_length, which needs the whole set; `shuffle` and `seed` as there
  std::uint32_t longest = 0;    // tokens of a sample at most
  std::uint32_t buffer = 1000;  // samples from which the next one is drawn where they are shuffled
};

// The steps of a stream. Without shuffling they are those of the set that the same files give. Packs are made of
// kPackWindow samples at a time; what is left of a window in its emptiest pack joins the next.
class StreamSteps final : public StepSource {
 public:
  static constexpr std::size_t kPackWindow = 128;

  // Waits for the first sample, so that data without any are told before a model is loaded. `encoder` outlives the
  // steps. Errors: as SampleStream's; group_by_length; packs smaller than the longest sample may be.
  [[nodiscard]] static Result<std::unique_ptr<StreamSteps>> open(const LoadOptions& load, const RowEncoder& encoder,
                                                                 const StreamStepOptions& options);

  [[nodiscard]] Settings identity() const override;
  [[nodiscard]] const BatchOptions& batches() const override { return options_.batches; }
  [[nodiscard]] MicroBatchBounds bounds() const override;
  [[nodiscard]] std::optional<std::uint64_t> steps_per_epoch() const override { return std::nullopt; }
  // A place behind what was given is gone to by reading the epoch from its beginning.
  [[nodiscard]] StepPlan plan(std::uint64_t epoch, std::uint64_t step) override;
  [[nodiscard]] MicroBatch gather(const MicroBatchPlan& plan) const override;
  [[nodiscard]] std::string place(std::uint32_t sample) const override { return places_.at(sample); }

 private:
  // What fills one place of a micro-batch: a sample, or a pack of them.
  using StepUnit = std::vector<StreamSample>;

  StreamSteps(LoadOptions load, const RowEncoder& encoder, StreamStepOptions options)
      : load_(std::move(load)), encoder_(encoder), options_(options) {}
  void seek(std::uint64_t epoch);
  [[nodiscard]] std::optional<StepUnit> next_unit();  // of the epoch; nothing at its end
  void pack_more();
  [[nodiscard]] std::uint64_t step_units() const;

  LoadOptions load_;
  const RowEncoder& encoder_;
  StreamStepOptions options_;
  std::unique_ptr<SampleStream> stream_;
  std::optional<StreamSample> ahead_;  // taken from the stream, of this epoch or the next
  std::vector<StepUnit> packs_;        // made and not given, the next one last
  StepUnit left_;                      // of the emptiest pack
  std::optional<StepUnit> unit_;       // the next step's first
  std::uint64_t epoch_ = 0;            // of `unit_`, the step `step_`
  std::uint64_t step_ = 0;
  EncodedDataset samples_;           // of the newest plan
  std::vector<std::uint32_t> ids_;   // [samples] their places in the epoch: these key dropout
  std::vector<std::string> places_;  // [samples] of their rows
};

}  // namespace tern::data
