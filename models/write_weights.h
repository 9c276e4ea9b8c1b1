// A model's weights written as Hugging Face keeps them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "models/stored_tensors.h"

namespace tern::models {

struct WriteWeightsOptions {
  tern_dtype dtype = TERN_F32;  // of all tensors but buffers, which are fp32; each number is rounded once
  std::uint64_t max_shard_size = 5'000'000'000;
  // Told of the parameters that the next tensor is made of, before their rows are asked for.
  std::function<void(const std::vector<const ParameterSpec*>& specs)> begin;
  ParameterRows rows;  // less what Hugging Face's form adds; safe to call from several threads
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // elements
};

// Writes model.safetensors, or shards and their index, into an existing directory. Throws Failure: a full disk, no
// permission, and what `rows` throws.
void write_weights(std::span<const ParameterSpec> specs, const std::filesystem::path& directory,
                   const WriteWeightsOptions& options);

}  // namespace tern::models
