// What the model's authors say of generating: generation_config.json, read here and nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/status.h"

namespace tern::session {

// Keys that the file lacks, or that are null in it, are unset.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> max_new_tokens;
  std::vector<std::int32_t> eos_token_ids;  // the file has a number or a list of them
};

// Of the directory `model`; a file, or a directory without generation_config.json, says nothing. Errors (data): a file
// that is no JSON object, a key whose value is of another kind.
[[nodiscard]] Result<GenerationConfig> read_generation_config(const std::filesystem::path& model);

}  // namespace tern::session
