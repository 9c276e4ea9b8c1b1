// Folding adapters into the weights that they sit on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/adapter.h"
#include "models/parameter_reader.h"
#include "models/rope_override.h"

namespace tern::models {

// A base model's weights with adapters folded into them, one after another: W + scaling B A for every linear layer that
// an adapter sits on, modules that adapters saved whole in their place (the last adapter's), all others as they are.
// Sums are made in fp32 from the stored (expanded) weights.
class MergedWeights {
 public:
  // `source` must outlive it; `config` is what read_config made of it. Throws Failure (data): an adapter of another
  // model, weights that the model lacks or has no use for.
  MergedWeights(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                const std::vector<std::filesystem::path>& adapters);
  ~MergedWeights();
  MergedWeights(const MergedWeights&) = delete;
  MergedWeights& operator=(const MergedWeights&) = delete;

  // Of the merged model: merged_config().
  [[nodiscard]] const ModelConfig& config() const;
  // Every parameter of it; they live as long as this.
  [[nodiscard]] const std::vector<ParameterSpec>& specs() const;
  // Whether an adapter changes it.
  [[nodiscard]] bool changes(const ParameterSpec& spec) const;
  // As ParameterReader::read_rows, of one of specs(). Safe to call from several threads.
  void read_rows(const ParameterSpec& spec, std::int64_t first, std::int64_t count, const ParameterSource& as,
                 std::span<float> values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct MergeOptions {
  std::vector<std::filesystem::path> adapters;  // folded in one after another
  tern_dtype dtype = TERN_BF16;                 // of the written weights
  std::uint64_t max_shard_size = 5'000'000'000;
  std::string problem_type;  // of a classification, whose head an adapter brings; "": by its number of labels
  std::vector<std::string> new_special_tokens;  // of the tokenizer that is written, with rows for them (new_tokens.h)
  RopeOverride rope;                            // of the config that is written
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // parameters
};

// What config.json says of the merged model: embedding and head are two matrices where an adapter changed one of them
// (saved_modules.h). Throws Failure.
[[nodiscard]] ModelConfig merged_config(const ModelConfig& config, const std::vector<std::filesystem::path>& adapters);

// Writes MergedWeights into model.safetensors of an existing directory, each number rounded once.
[[nodiscard]] Status merge_weights(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                   const MergeOptions& options, const std::filesystem::path& directory);

}  // namespace tern::models
