// What a checkpoint holds: its tensors, metadata, architecture, and what it needs in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/json_fwd.h"

namespace tern::checkpoint {

struct InspectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string storage;      // "BF16", "Q4_1", "gptq_int4"
  std::string scheme;       // "4 bit, groups 1 x 128, scales f16", or empty
  std::uint64_t bytes = 0;  // as stored, scales included
};

struct StorageTotal {
  std::string storage;
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

struct Inspection {
  std::string path;
  std::string format;        // "GGUF v3", "Hugging Face directory", "safetensors"
  std::string architecture;  // "llama", or empty where the file does not say
  std::vector<InspectedTensor> tensors;
  std::vector<StorageTotal> totals;                           // by storage, largest first
  std::vector<std::pair<std::string, std::string>> metadata;  // value as JSON text, long ones shortened
  std::uint64_t files = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t parameters = 0;
  std::uint64_t stored_bytes = 0;    // weights in memory as stored
  std::uint64_t bfloat16_bytes = 0;  // weights in memory as bf16
  std::uint64_t float32_bytes = 0;
};

[[nodiscard]] Result<Inspection> inspect(const std::filesystem::path& path);
[[nodiscard]] io::Json to_json(const Inspection& inspection);
// Lines for a terminal: a head, the metadata, one line a tensor, the totals.
[[nodiscard]] std::string to_text(const Inspection& inspection);

}  // namespace tern::checkpoint
