// A model's weights written quantised, as the tools that other programs load from keep them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/merge.h"
#include "models/quantise.h"

namespace tern::models {

struct WriteQuantisedOptions {
  QuantiseOptions quantise;
  bool is_bnb = false;           // int8 as bitsandbytes has it, else as compressed-tensors
  tern_dtype dtype = TERN_BF16;  // of what isn't quantised, and of products in config.json's words
  std::uint64_t max_shard_size = 5'000'000'000;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // elements; may throw
};

struct QuantisedReport {
  std::string quantization_config;      // JSON, for config.json
  std::int64_t quantised = 0;           // tensors
  std::vector<std::string> left_plain;  // linear layers that the format has no words for: fused experts
};

// Writes model.safetensors, or shards and their index, into an existing directory. Linear layers but the head and
// routers are quantised, from fp32: fp8 as transformers' fine-grained FP8 (weight, weight_scale_inv), int8 as
// compressed-tensors (weight, weight_scale) or bitsandbytes (weight, SCB, weight_format), nf4 as bitsandbytes (weight,
// absmax, quant_map, nested ones, quant_state). Throws Failure.
[[nodiscard]] QuantisedReport write_quantised(MergedWeights& weights, const std::filesystem::path& directory,
                                              const WriteQuantisedOptions& options);

}  // namespace tern::models
