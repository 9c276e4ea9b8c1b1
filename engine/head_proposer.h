// Guesses of a head that reads the model's own hidden states (models/speculative_head.h): EAGLE-3, multi-token
// prediction.
//
// It follows each step of the model: hidden states are there once and nowhere else, so a token whose pair is left out
// would be missing for good. Its layer is one more of the model's cache, in the same blocks: who begins behind found
// blocks, is thrown out or comes back from the second tier has the head's keys there, too, without a word about it
// here. What pair i holds hangs on token i + 1, and so does the hash that a block is found by (PrefixHashes' `ahead`).
// Pairs of guesses lie behind the sequence's own, where the next step writes over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/head_runner.h"
#include "engine/proposer.h"
#include "engine/scheduler.h"

namespace tern::engine {

class HeadProposer : public Proposer {
 public:
  // `scheduler` gives blocks out and outlives it; `vocab_size` is the model's, `step_cost` that of one guess in steps
  // of the model. `keep_blocks` makes the copies of what stood in blocks that were given out: guesses write there
  // before the next step is scheduled.
  HeadProposer(std::unique_ptr<HeadRunner> runner, Scheduler& scheduler, std::int64_t vocab_size, double step_cost,
               std::function<void()> keep_blocks);

  void follow(const Batch& step) override;
  [[nodiscard]] DraftCost cost(const Sequence& sequence, std::int64_t running) const override;
  void propose(std::span<const DraftWish> wishes, std::int64_t running) override;
  [[nodiscard]] std::int64_t computed_tokens() const override { return computed_tokens_; }
  [[nodiscard]] const HeadRunner& runner() const { return *runner_; }

 private:
  // One who waits for guesses.
  struct Guesser {
    Sequence* sequence = nullptr;
    std::int64_t most = 0;
    std::int64_t state = 0;  // its row among those of the last step that drew
  };
  void take_wish(const DraftWish& wish);
  void run(HeadRunner::States from, std::int64_t running);

  std::unique_ptr<HeadRunner> runner_;
  Scheduler& scheduler_;
  std::function<void()> keep_blocks_;
  std::int64_t vocab_size_;
  double step_cost_;
  // All that guesses earned and cost: new sequences begin with some while there is any left.
  DraftBudget earnings_{DraftBudget::kMost};
  std::vector<HeadPart> parts_;    // of the step that was computed last, then of the next guesses
  std::vector<Guesser> guessers_;  // in the order of the parts that draw
  std::int64_t computed_tokens_ = 0;
};

}  // namespace tern::engine
