// Who guesses the tokens that follow: prompt lookup (prompt_lookup.h) or a smaller model (draft_model.h). A step checks
// the guesses and keeps those that it draws itself (speculation.h), so a proposer can't change an answer.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"

namespace tern::engine {

// vLLM's names.
struct SpeculativeOptions {
  std::int64_t num_speculative_tokens = 0;  // most guesses in a step; 0: none
  std::int64_t prompt_lookup_max = 5;       // tokens of the words that are looked up, the longest first
  std::int64_t prompt_lookup_min = 5;
  // Of a draft model: what one of its steps costs of one of the model's. 0: as much as it has of the bytes of weights.
  double draft_step_cost = 0;
};

struct DraftWish {
  Sequence* sequence = nullptr;
  bool draws = false;     // its last token has been drawn; else its prompt is still computed, chunk by chunk
  std::int64_t most = 0;  // guesses
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // What guesses of this sequence cost beside checking them, where all `running` sequences have some.
  [[nodiscard]] virtual DraftCost cost(const Sequence& /*sequence*/, std::int64_t /*running*/) const { return {}; }
  // Fills Sequence::drafts, which are empty, of a step's sequences while no step runs, and takes what that cost from
  // their budgets. `running`: how many wait for it.
  virtual void propose(std::span<const DraftWish> wishes, std::int64_t running) = 0;
  // Tokens that a model of its own has computed so far.
  [[nodiscard]] virtual std::int64_t computed_tokens() const { return 0; }
};

}  // namespace tern::engine
