#include "engine/speculation.h"

#include <algorithm>
#include <utility>

namespace tern::engine {

std::int64_t rows_of_drafts(const accel::Device& device, std::int64_t max_num_batched_tokens) {
  constexpr std::int64_t kElsewhere = 64;
  const std::int64_t few = device.info().x15_rows;
  return std::min(few > 0 ? few : kElsewhere, max_num_batched_tokens);
}

Speculation::Speculation(std::unique_ptr<Proposer> proposer, const SpeculativeOptions& options, std::int64_t rows,
                         std::int64_t max_model_len)
    : proposer_(std::move(proposer)), options_(options), rows_(rows), max_model_len_(max_model_len) {
  guesses_.right_at.resize(static_cast<std::size_t>(options.num_speculative_tokens));
}

void Speculation::guess(const Batch& batch, std::int64_t running) {
  if (proposer_ == nullptr) return;
  proposer_->follow(batch);
  wishes_.clear();
  const std::int64_t share = rows_ / running - 1;
  if (share > 0) wish(batch, running, share);
  proposer_->propose(wishes_, running);
}

void Speculation::wish(const Batch& batch, std::int64_t running, std::int64_t share) {
  for (const ScheduledSequence& part : batch) {
    Sequence& sequence = *part.sequence;
    if (sequence.finish != FinishReason::none) continue;
    // What a mask allows behind a guess only it can say, and it can't take a token back: no guesses.
    if (sequence.params.mask != nullptr) continue;
    DraftWish wish{&sequence, part.samples};
    const std::int64_t room =
        std::min(sequence.params.max_new_tokens - sequence.generated(), max_model_len_ - sequence.length()) - 1;
    if (room <= 0) continue;
    if (part.samples) {
      DraftCost cost = proposer_->cost(sequence, running);
      cost.each += cost_of_checking(running);
      wish.most = std::min(
          {room, share, sequence.draft_budget.most(cost), sequence.depth.next(options_.num_speculative_tokens)});
    }
    wishes_.push_back(wish);
  }
}

void Speculation::learn(const ScheduledSequence& part, std::int64_t right, std::int64_t running) {
  Sequence& sequence = *part.sequence;
  if (proposer_ == nullptr) return;
  sequence.draft_budget.spend(static_cast<double>(part.drafts) * cost_of_checking(running));
  sequence.draft_budget.earn(right);
  if (part.drafts == 0) return;
  sequence.depth.learn(part.drafts, right);
  ++guesses_.drafts;
  guesses_.checked += part.drafts;
  guesses_.right += right;
  for (std::int64_t i = 0; i < right; ++i) ++guesses_.right_at[static_cast<std::size_t>(i)];
}

void Speculation::finish(const Sequence& sequence) {
  if (proposer_ != nullptr) proposer_->finish(sequence);
}

}  // namespace tern::engine
