// `--streaming true`: samples as they are needed, with nothing cached and memory bounded by the shuffle's window.
//
// Rows are read and encoded by threads that run ahead; the samples come out window by window, each window in an order
// that is a pure function of (seed, epoch, window). After the last row the next epoch begins.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "data/batch.h"
#include "data/dataset.h"

namespace tern::data {

struct StreamOptions {
  std::uint32_t shuffle_buffer = 1000;  // samples a window; 1 keeps the files' order
  std::uint64_t seed = 42;
};

struct StreamSample {
  Sample sample;
  std::uint64_t epoch = 0;
  std::uint32_t id = 0;  // place in its epoch: keys dropout, as sample ids do elsewhere
};

// The samples of one optimizer step, held while it runs. The plan names them by their place here; `ids` holds what keys
// dropout.
struct StreamStep {
  StepPlan plan;
  EncodedDataset samples;
  std::vector<std::uint32_t> ids;  // [samples] their ids in the epoch
};

class SampleStream {
 public:
  // Errors: a split_dataset_ratio (there is no length to take a share of), no dataset. `encoder` outlives the stream.
  [[nodiscard]] static Result<std::unique_ptr<SampleStream>> open(const LoadOptions& load, const RowEncoder& encoder,
                                                                  const StreamOptions& options);
  ~SampleStream();

  // The next sample; an Error of the files, of a bad row under `strict`, or where an epoch leaves no sample.
  [[nodiscard]] Result<StreamSample> next();
  // The next step's samples, all of them and their total before it runs. A step may span two epochs; its plan names the
  // first. Packing and group_by_length need the whole set: they are errors here.
  [[nodiscard]] Result<StreamStep> next_step(const BatchOptions& batch);
  // Passes over `samples` samples: where a resumed run goes on.
  Status skip(std::uint64_t samples);

 private:
  struct State;
  explicit SampleStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tern::data
