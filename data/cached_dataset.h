// Data sets that are tokenised once and trained on as often as one likes: what `tern export --to_cached_dataset` writes
// and --cached_dataset reads. A folder of two files: samples.tokens (data/cache.h), and cached_dataset.json, which
// tells the settings that made them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "data/sample.h"
#include "data/settings.h"

namespace tern::data {

// Writes the samples in their order; a sample's line is then the number of its row in the set. `settings`:
// row_settings() of what made them. The folder counts once its second file is there. Errors (failed): it can't be
// written.
[[nodiscard]] Status write_cached_dataset(const EncodedDataset& dataset, const Settings& settings,
                                          const std::filesystem::path& folder);

struct CachedDataset {
  std::shared_ptr<const SampleStore> store;
  std::uint64_t longest = 0;  // tokens of a sample at most; the longer ones are to be left out
};

// Errors (data): no such folder, or its samples aren't sound; (usage): they were made with other settings than
// `wanted`, which names each. A --max_length below the set's is no other setting where longer samples are dropped
// anyway.
[[nodiscard]] Result<CachedDataset> open_cached_dataset(const std::filesystem::path& folder, const Settings& wanted);

}  // namespace tern::data
