// The encoded rows of one dataset for a stream: pass after pass, by threads that run ahead of whoever takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "data/bounded_queue.h"
#include "data/dataset.h"
#include "data/dataset_rows.h"

namespace tern::data {

// The samples of a row, at least one.
struct FedRow {
  std::vector<Sample> samples;
  std::string place;  // `data/train.jsonl:17`
};

// One pass over a dataset, or as many as `#N` rows take. `take` gets the rows that have samples and returns false to
// stop; so does then this. `tells`: bad rows are warned of at once. Throws Failure.
bool feed_rows(const Source& source, const LoadOptions& load, const RowEncoder& encoder, bool tells,
               DatasetReport& report, const std::function<bool(FedRow)>& take);

// Passes without an end, taken row by row.
class RowFeed {
 public:
  // `load` and `encoder` outlive the feed. `tells`: the first pass warns of bad rows, and tells what it read.
  RowFeed(const std::string& spec, const LoadOptions& load, const RowEncoder& encoder, bool tells);
  ~RowFeed();
  RowFeed(const RowFeed&) = delete;
  RowFeed& operator=(const RowFeed&) = delete;

  // The next row; nothing at the end of a pass. Throws Failure: of the files, of a bad row under `strict`, of a pass
  // without a sample; after that there is no next row.
  [[nodiscard]] std::optional<FedRow> next();

 private:
  struct Item {
    std::optional<FedRow> row;
    std::optional<Error> error;
  };
  void produce(bool tells);

  std::string spec_;
  const LoadOptions& load_;
  const RowEncoder& encoder_;
  BoundedQueue<Item> queue_;
  std::jthread producer_;  // last: joined before what it uses goes
};

}  // namespace tern::data
