// One request's tokens and what has been computed of them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/adapter_slots.h"
#include "engine/draft_budget.h"
#include "engine/prefix_hash.h"
#include "engine/request_images.h"
#include "engine/sampling_params.h"

namespace tern::engine {

using SequenceId = std::int64_t;

struct DraftShadow;

enum class FinishReason { none, stop, length, aborted, failed };

struct Sequence {
  SequenceId id = 0;
  std::vector<std::int32_t> tokens;  // prompt, then what was drawn
  std::int64_t prompt_length = 0;
  std::int64_t priority = 0;               // the lowest goes first
  std::int64_t arrival = 0;                // among those of one priority, the lowest goes first
  std::int64_t computed = 0;               // tokens whose keys and values are in the cache
  std::int64_t cached = 0;                 // tokens that it found in the cache when it was first admitted
  std::int64_t found_blocks = 0;           // that it found, and that the device's block table lacks
  std::int64_t published = 0;              // blocks, the first of its own, that others can find
  bool skip_reading_prefix_cache = false;  // it computes all of its tokens; others find its blocks
  bool was_admitted = false;               // once, of those with hashes
  std::string cache_salt;                  // of the request (RequestOptions::cache_salt)
  PrefixHashes hashes;
  std::array<std::int64_t, 2> state_ends{};  // lengths behind which copies of its states are kept; 0: none
  AdapterRef adapter;                        // null: the model alone
  std::int32_t adapter_slot = -1;            // where it is while the sequence runs; else -1
  std::vector<std::int32_t> blocks;          // of the cache, in order
  std::int32_t seat = 0;             // its row of the device's block tables (nn/token_inputs.h) while it runs; else 0
  std::vector<std::int32_t> drafts;  // guesses of the tokens that follow, for the next step to check
  DraftDepth depth;
  DraftBudget draft_budget;
  std::shared_ptr<DraftShadow> shadow;  // what a draft model keeps of it while it runs (draft_model.h); null: nothing
  RequestImages images;
  SamplingParams params;
  std::vector<std::int32_t> end_ids;  // tokens that end it
  FinishReason finish = FinishReason::none;
  std::optional<std::chrono::steady_clock::time_point> begun;  // when its first step began

  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  // With the guesses behind it.
  [[nodiscard]] std::int64_t reach() const { return length() + static_cast<std::int64_t>(drafts.size()); }
  [[nodiscard]] std::int64_t generated() const { return length() - prompt_length; }
};

}  // namespace tern::engine
