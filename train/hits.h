// How often a model is right: the counts behind token_acc and seq_acc.
#pragma once

#include <cstdint>

namespace tern::train {

// How often the likeliest token was the right one, over supervised positions; and over samples, of which every
// supervised position must be right.
struct Hits {
  std::int64_t right_tokens = 0;
  std::int64_t tokens = 0;
  std::int64_t right_samples = 0;
  std::int64_t samples = 0;

  void add(const Hits& other) {
    right_tokens += other.right_tokens;
    tokens += other.tokens;
    right_samples += other.right_samples;
    samples += other.samples;
  }
};

}  // namespace tern::train
