// The JSON of --speculative_config, in vLLM's words.
#pragma once

#include <string>

#include "engine/proposer.h"

namespace tern::cli {

struct SpeculativeConfig {
  engine::SpeculativeOptions options;
  std::string model;  // that guesses; "": what was written before does
};

// Throws Failure (usage): a key or method that isn't known, or a value that isn't one of its key.
[[nodiscard]] SpeculativeConfig read_speculative_config(const std::string& text);

}  // namespace tern::cli
