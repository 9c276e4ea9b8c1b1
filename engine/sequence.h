// One request's tokens and what has been computed of them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/prompt_lookup.h"
#include "engine/request_images.h"
#include "engine/sampling_params.h"

namespace tern::engine {

using SequenceId = std::int64_t;

enum class FinishReason { none, stop, length, aborted, failed };

struct Sequence {
  SequenceId id = 0;
  std::vector<std::int32_t> tokens;  // prompt, then what was drawn
  std::int64_t prompt_length = 0;
  std::int64_t computed = 0;         // tokens whose keys and values are in the cache
  std::vector<std::int32_t> blocks;  // of the cache, in order
  std::int32_t seat = 0;             // its row of the device's block tables (nn/token_inputs.h) while it runs; else 0
  std::vector<std::int32_t> drafts;  // guesses of the tokens that follow, for the next step to check
  DraftDepth depth;
  RequestImages images;
  DraftBudget draft_budget;
  SamplingParams params;
  std::vector<std::int32_t> end_ids;  // tokens that end it
  FinishReason finish = FinishReason::none;

  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  // With the guesses behind it.
  [[nodiscard]] std::int64_t reach() const { return length() + static_cast<std::int64_t>(drafts.size()); }
  [[nodiscard]] std::int64_t generated() const { return length() - prompt_length; }
};

}  // namespace tern::engine
