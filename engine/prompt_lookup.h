// Guesses of the tokens that follow, taken from what followed the same words before (prompt lookup, Saxena 2023): for
// answers that repeat much of their prompt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/proposer.h"

namespace tern::engine {

// Appends to `drafts` at most `most` tokens that followed the latest earlier place of the last tokens.
void look_up(std::span<const std::int32_t> tokens, const SpeculativeOptions& options, std::int64_t most,
             std::vector<std::int32_t>& drafts);

class PromptLookup : public Proposer {
 public:
  explicit PromptLookup(const SpeculativeOptions& options) : options_(options) {}
  void propose(std::span<const DraftWish> wishes, std::int64_t running) override;

 private:
  SpeculativeOptions options_;
};

}  // namespace tern::engine
