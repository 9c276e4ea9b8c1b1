// The data flags of a run, from `--dataset` to samples ready for batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/cache.h"
#include "data/dataset_spec.h"
#include "data/encode.h"
#include "data/interleave.h"
#include "data/pipeline.h"
#include "data/row.h"
#include "data/sample.h"

namespace tern::data {

// Files of a dataset that is not a local path: a hub's ORG/NAME[:subset].
using HubResolver = std::function<Result<std::vector<std::filesystem::path>>(const std::string& id)>;

struct LoadOptions {
  std::vector<std::string> dataset;  // path[#N] or hub id, all mixed
  std::vector<std::string> val_dataset;
  std::vector<std::string> cached_dataset;  // folders[#N] of tokenised rows (data/cached_dataset.h), before the rest
  std::vector<std::string> cached_val_dataset;  // the same, for evaluation
  double split_dataset_ratio = 0;               // share of the rows of `dataset` held out for evaluation
  Interleave interleave;                        // of `dataset`, by row, in the place of one after another
  std::uint64_t data_seed = 42;
  bool strict = false;               // a bad row stops the run, and a null answer makes one
  bool needs_supervision = true;     // data without a supervised token is an error, not just told
  bool load_from_cache_file = true;  // false: tokenise anew
  unsigned dataset_num_proc = 1;     // threads
  NormalizeOptions normalize;        // columns, system
  std::filesystem::path cache_directory = default_cache_directory();
  HubResolver hub;  // without it a hub id is an error
  Progress progress;
};

// What became of one `--dataset` entry.
struct DatasetReport {
  std::string spec;
  std::vector<std::string> files;
  RowCounts counts;
  std::uint64_t samples = 0;  // in train and validation together, repeats counted
  bool cached = false;        // read from the cache

  // "train.jsonl: 7473 rows, 3 bad (dropped), 12 longer than max_length (dropped); 7458 samples (from the cache)".
  [[nodiscard]] std::string line() const;
};

struct LoadedData {
  EncodedDataset train;
  EncodedDataset validation;
  std::vector<DatasetReport> reports;  // dataset entries, then val_dataset's
  // Rows held out by split_dataset_ratio, as (index in `reports`, ordinal in that dataset): what val_dataset.jsonl
  // holds.
  std::vector<std::pair<std::size_t, std::uint64_t>> held_out;
};

// Reads, selects, encodes (or maps the cached encoding) and mixes. Bad rows are warned of and dropped; with `strict`,
// or where no supervised token is left, an Error. The result is a pure function of the files and the options.
[[nodiscard]] Result<LoadedData> load_datasets(const LoadOptions& options, const RowEncoder& encoder);

// What decides the samples of a row, under the names of flags: the encoder's and how the row was read.
[[nodiscard]] Settings row_settings(const LoadOptions& options, const RowEncoder& encoder);

// Local files of a spec: the file itself, a directory's data files by name, or what the hub gives.
[[nodiscard]] Result<std::vector<std::string>> dataset_files(const DatasetSpec& spec, const HubResolver& hub);

// Rows themselves, in order, for commands that need no tokens: `take` gets each good row that path#N selects (repeats
// included); false stops. Memory holds one pass's selection, not the rows.
struct RowsReport {
  RowCounts counts;
};
[[nodiscard]] Result<RowsReport> for_each_row(const std::string& spec, const LoadOptions& options,
                                              const std::function<bool(Row&&)>& take);

// Writes the rows that load_datasets() held out, as JSON lines that the reader takes back.
Status write_held_out(const LoadOptions& options, const LoadedData& data, const std::filesystem::path& target);

}  // namespace tern::data
