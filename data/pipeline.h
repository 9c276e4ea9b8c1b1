// Rows through a pool of threads, results in file order, with a bounded number of rows in flight.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/reader.h"

namespace tern::data {

// How far long work has come; `total` 0 where it is not known. Called from one thread, a few times a second.
struct ProgressEvent {
  std::string what;        // "tokenising train.jsonl"
  std::uint64_t done = 0;  // bytes of the files
  std::uint64_t total = 0;
  std::uint64_t rows = 0;
  double seconds = 0;  // since the work began
  bool last = false;
};
using Progress = std::function<void(const ProgressEvent&)>;

// What a worker makes of a row. Made by the worker's thread, given to `consume` on the caller's.
class RowProduct {
 public:
  virtual ~RowProduct() = default;
};

using RowWork = std::function<std::unique_ptr<RowProduct>(RawRow&& row)>;

struct PipelineOptions {
  std::string path;
  unsigned threads = 1;
  std::string what;
  Progress progress;
};

// What the standard library threw while `what` ("reading rows") was done, as an Error: of the kind device where memory
// is short, else failed.
[[nodiscard]] Error thrown_error(const std::exception& thrown, std::string_view what, std::string mend);

// Reads all rows of the file. `make_work` is called once in each thread, `take` on the caller's thread in file order;
// `take` may return an Error to stop. Exceptions of the work end the run with their Error.
Status run_rows(const PipelineOptions& options, const std::function<RowWork()>& make_work,
                const std::function<Status(std::unique_ptr<RowProduct>)>& take);

}  // namespace tern::data
