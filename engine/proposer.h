// Who guesses the tokens that follow: prompt lookup (prompt_lookup.h), the text so far and earlier answers
// (suffix_decoding.h), a smaller model (draft_model.h) or a head over the model's own hidden states (head_proposer.h).
// A step checks the guesses and keeps those that it draws itself (speculation.h), so a proposer can't change an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/scheduler.h"

namespace tern::engine {

// vLLM's names, without their suffix_decoding_.
struct SuffixOptions {
  std::int64_t max_tree_depth = 24;          // tokens of words and what follows them
  std::int64_t max_cached_requests = 10000;  // whose answers guess for later ones, the oldest goes first; 0: none
  double max_spec_factor = 1.0;              // guesses for each of the words that are found
  double min_token_prob = 0.1;               // that the words followed with so far, down to the last guess
  std::int64_t max_bytes = 256LL << 20;      // of these answers in memory, about; the oldest goes first
};

// vLLM's names.
struct SpeculativeOptions {
  std::int64_t num_speculative_tokens = 0;  // most guesses in a step; 0: none
  std::int64_t prompt_lookup_max = 5;       // tokens of the words that are looked up, the longest first
  std::int64_t prompt_lookup_min = 5;
  // Of a draft model: what one of its steps costs of one of the model's. 0: as much as it has of the bytes of weights.
  double draft_step_cost = 0;
  std::optional<SuffixOptions> suffix = std::nullopt;  // earlier texts guess in the place of prompt lookup
};

struct DraftWish {
  Sequence* sequence = nullptr;
  bool draws = false;     // its last token has been drawn; else its prompt is still computed, chunk by chunk
  std::int64_t most = 0;  // guesses
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // Told of each step that was computed, before anybody is asked: what it computed, sequences that it ended included.
  virtual void follow(const Batch& /*step*/) {}
  // What guesses of this sequence cost beside checking them, where all `running` sequences have some.
  [[nodiscard]] virtual DraftCost cost(const Sequence& /*sequence*/, std::int64_t /*running*/) const { return {}; }
  // Fills Sequence::drafts, which are empty, of a step's sequences while no step runs, and takes what that cost from
  // their budgets. After every step, also where nobody wishes any. `running`: how many wait for it.
  virtual void propose(std::span<const DraftWish> wishes, std::int64_t running) = 0;
  // A sequence ends, whose answer is as long as it'll be; it may never have had a wish.
  virtual void finish(const Sequence& /*sequence*/) {}
  // Tokens that a model of its own has computed so far.
  [[nodiscard]] virtual std::int64_t computed_tokens() const { return 0; }
};

}  // namespace tern::engine
