// Folding adapters into the weights that they sit on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/adapter.h"
#include "models/rope_override.h"

namespace tern::models {

struct MergeOptions {
  std::vector<std::filesystem::path> adapters;  // folded in one after another
  tern_dtype dtype = TERN_BF16;                 // of the written weights
  std::uint64_t max_shard_size = 5'000'000'000;
  std::string problem_type;  // of a classification, whose head an adapter brings; "": by its number of labels
  RopeOverride rope;                                                      // of the config that is written
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // parameters
};

// What config.json says of the merged model: embedding and head are two matrices where an adapter trained one of them
// whole (saved_modules.h). Throws Failure.
[[nodiscard]] ModelConfig merged_config(const ModelConfig& config, const std::vector<std::filesystem::path>& adapters);

// Writes W + scaling B A for every linear layer, modules that adapters saved whole in their place (the last adapter's),
// and all other weights as they are, into model.safetensors of an existing directory; `config` is what read_config made
// of the source. Sums are made in fp32 from the stored (expanded)
// weights and rounded once. Errors (data): an adapter of another model.
[[nodiscard]] Status merge_weights(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                   const MergeOptions& options, const std::filesystem::path& directory);

}  // namespace tern::models
