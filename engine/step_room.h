// What a step has room for while its sequences are chosen.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/sequence.h"

namespace tern::engine {

class StepRoom {
 public:
  // `tokens` in all; `prompts`: those of prompts, where somebody waits for the next token of an answer.
  StepRoom(std::int64_t tokens, std::int64_t prompts) : tokens_(tokens), prompts_(prompts), most_prompts_(prompts) {}

  // How many tokens behind the first `computed` it takes of a sequence of `length`, of which `known` are no guesses.
  [[nodiscard]] std::int64_t take_of(const Sequence& sequence, std::int64_t computed, std::int64_t length,
                                     std::int64_t known) const {
    if (known - computed <= 1) return part_of(sequence, computed, length, tokens_);
    const std::int64_t count = part_of(sequence, computed, length, std::min(tokens_, prompts_));
    if (count > 0 || prompts_ < most_prompts_) return count;
    // What must be computed in one step may be more than that.
    return part_of(sequence, computed, length, std::min(tokens_, sequence.images.span_at(computed).end - computed));
  }
  void give(std::int64_t count, bool of_prompt) {
    tokens_ -= count;
    if (of_prompt) prompts_ = std::max<std::int64_t>(prompts_ - count, 0);
  }
  [[nodiscard]] bool any() const { return tokens_ > 0; }
  [[nodiscard]] std::int64_t for_others() const { return std::min(tokens_, prompts_); }  // who don't run yet

 private:
  [[nodiscard]] static std::int64_t part_of(const Sequence& sequence, std::int64_t computed, std::int64_t length,
                                            std::int64_t budget) {
    std::int64_t count = sequence.images.whole(computed, std::min(budget, length - computed));
    for (const std::int64_t end : sequence.state_ends) {
      if (computed < end) count = std::min(count, end - computed);
    }
    return count;
  }

  std::int64_t tokens_, prompts_, most_prompts_;
};

}  // namespace tern::engine
