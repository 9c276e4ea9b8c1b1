// Heads of EAGLE-3 with random weights, for a model of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tern::test {

struct Eagle3Shape {
  std::int64_t hidden = 32;  // of the model and the head
  std::int64_t vocab = 160;
  std::int64_t draft_vocab = 0;                  // every second token; 0: all of them, without d2t
  std::vector<std::int64_t> layers = {0, 1, 1};  // of the model, by what they give, as SpecForge has it
  bool is_of_speculators = false;                // its names, its config and a residual that is normed
  bool has_words = false;                        // embed_tokens of its own
  unsigned seed = 1;
};

// Writes config.json and model.safetensors.
void write_eagle3_head(const std::filesystem::path& directory, const Eagle3Shape& shape);

}  // namespace tern::test
