// The JSON of --speculative_config, in vLLM's words.
#pragma once

#include <string>

#include "engine/proposer.h"

namespace tern::cli {

struct SpeculativeConfig {
  engine::SpeculativeOptions options;
  enum class Method { ngram, draft_model, suffix, eagle3, mtp } method = Method::ngram;
  std::string model;  // the draft model, or the head; "": what was written before guesses, or the model's own layers
};

// Throws Failure (usage): a key or method that isn't known, or a value that isn't one of its key.
[[nodiscard]] SpeculativeConfig read_speculative_config(const std::string& text);

}  // namespace tern::cli
