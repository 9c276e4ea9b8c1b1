// Whether a merged model computes what its base does with the adapter over it: the last look at it before it gets its
// name.
#pragma once

#include <filesystem>

#include "session/session.h"

namespace tern::engine {

// Distances between the logits of the tokens of a short text: the root mean square of the differences (less each
// token's mean) over the standard deviation of the logits of base and adapter.
struct MergeDistance {
  double merged = 0;   // of the merged model from base and adapter
  double adapter = 0;  // of the base alone from base and adapter: what the adapter changes
  double limit = 0;    // most that rounding the merged weights explains
};

// How far logits may be apart because every weight was rounded to the type of which most of the model's linear layers
// are: plain dtypes by their unit roundoff, blocks by their bits.
[[nodiscard]] double merge_limit(const checkpoint::CheckpointSource& merged, const models::ModelConfig& config);

// `base` opens the base model; `merged` is a model beside it, a directory or a GGUF file. Products are computed in
// fp32. Throws Failure (failed) where they are further apart than the limit, and says how far.
[[nodiscard]] MergeDistance check_merge(const session::SessionOptions& base, const std::filesystem::path& adapter,
                                        const std::filesystem::path& merged);

}  // namespace tern::engine
