// `--streaming true`: samples as they are needed, with nothing cached and memory bounded by the shuffle's buffer.
//
// Rows are read and encoded by threads that run ahead. A sample is drawn from a buffer of those read last, and the next
// one read takes its place, as `datasets` shuffles an IterableDataset; each draw is a pure function of (seed, epoch,
// how many were drawn). After the last row the next epoch begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "data/dataset.h"
#include "data/sample.h"

namespace tern::data {

struct StreamOptions {
  std::uint32_t buffer = 1000;  // samples; 1 keeps the files' order
  std::uint64_t seed = 42;
  std::uint64_t first_epoch = 0;
};

struct StreamSample {
  Sample sample;
  std::uint64_t epoch = 0;
  std::uint32_t id = 0;  // place among the samples that its epoch reads: keys dropout, as sample ids do elsewhere
  std::string place;     // of its row: `data/train.jsonl:17`
};

class SampleStream {
 public:
  // Errors: a split_dataset_ratio (there is no length to take a share of), no dataset. `#N` of a dataset is its first N
  // good rows, and passes from its beginning until there are N. `encoder` outlives the stream.
  [[nodiscard]] static Result<std::unique_ptr<SampleStream>> open(const LoadOptions& load, const RowEncoder& encoder,
                                                                  const StreamOptions& options);
  ~SampleStream();

  // The next sample; an Error of the files, of a bad row under `strict`, or where an epoch leaves no sample.
  [[nodiscard]] Result<StreamSample> next();

 private:
  struct State;
  explicit SampleStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tern::data
