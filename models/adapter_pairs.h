// An adapter as a server keeps it for the requests that choose it: its pairs on the host, apart from any device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/adapter.h"

namespace tern::models {

struct AdapterPair {
  std::int64_t rank = 0;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank], scaled, with its rows in the model's order
};

struct AdapterPairs {
  std::int64_t rank = 0;                     // the largest of a module
  std::map<std::string, AdapterPair> pairs;  // by module, of linear_modules()
};

// Reads PEFT's files. Errors (data): as of load_adapter, and an adapter that is more than pairs beside linear layers
// (DoRA, VeRA, embeddings, the head, experts, biases or modules of its own): such a one is served alone, or merged.
[[nodiscard]] Result<AdapterPairs> read_adapter_pairs(const ModelConfig& model, const std::filesystem::path& directory);

}  // namespace tern::models
