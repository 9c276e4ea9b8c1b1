#include "engine/head_proposer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tern::engine {

HeadProposer::HeadProposer(std::unique_ptr<HeadRunner> runner, Scheduler& scheduler, std::int64_t vocab_size,
                           double step_cost, std::function<void()> keep_blocks)
    : runner_(std::move(runner)),
      scheduler_(scheduler),
      keep_blocks_(std::move(keep_blocks)),
      vocab_size_(vocab_size),
      step_cost_(step_cost) {
  parts_.reserve(static_cast<std::size_t>(runner_->max_num_seqs()));  // a step allocates nothing
  guessers_.reserve(parts_.capacity());
}

// Pairs of the tokens that stay: guesses that were wrong have none, and the last token's waits for the one behind it.
void HeadProposer::follow(const Batch& step) {
  parts_.clear();
  std::int64_t at = 0;
  for (const ScheduledSequence& part : step) {
    Sequence& sequence = *part.sequence;
    const std::int64_t end = std::min(sequence.computed, sequence.length() - 1);
    if (end > part.begin && sequence.finish != FinishReason::failed)
      parts_.push_back({&sequence, part.begin, end - part.begin, at, false});
    at += part.count;
    if (!part.samples) continue;
    earnings_.earn(sequence.computed - (part.begin + part.count - part.drafts));
    if (sequence.generated() == 1) sequence.draft_budget.grant(first_guesses(earnings_.left()));
  }
}

DraftCost HeadProposer::cost(const Sequence& /*sequence*/, std::int64_t /*running*/) const {
  return {.before = 0, .each = step_cost_};
}

// What is guessed must have blocks, in which the model will check it.
void HeadProposer::take_wish(const DraftWish& wish) {
  Sequence& sequence = *wish.sequence;
  if (!wish.draws || wish.most <= 0 || !sequence.images.empty()) return;
  const auto part =
      std::find_if(parts_.begin(), parts_.end(), [&](const HeadPart& one) { return one.sequence == &sequence; });
  if (part == parts_.end()) return;
  std::int64_t most = wish.most;
  if (!scheduler_.reserve(sequence, sequence.length() + most)) {
    const auto held = static_cast<std::int64_t>(sequence.blocks.size()) * runner_->block_size();
    most = std::min(most, held - sequence.length());
  }
  if (most <= 0) return;
  part->draws = true;
  guessers_.push_back({&sequence, most, 0});
}

void HeadProposer::propose(std::span<const DraftWish> wishes, std::int64_t running) {
  if (parts_.empty()) return;
  guessers_.clear();
  for (const DraftWish& wish : wishes) take_wish(wish);
  if (!guessers_.empty()) keep_blocks_();
  run(HeadRunner::States::of_model, running);
  for (;;) {
    std::erase_if(guessers_, [](const Guesser& one) {
      return static_cast<std::int64_t>(one.sequence->drafts.size()) >= one.most;
    });
    if (guessers_.empty()) break;
    parts_.clear();
    for (const Guesser& one : guessers_)
      parts_.push_back({one.sequence, one.sequence->reach() - 2, 1, one.state, true});
    run(HeadRunner::States::of_head, running);
  }
  parts_.clear();
}

// Everyone waits for it, for the sake of those who draw.
void HeadProposer::run(HeadRunner::States from, std::int64_t running) {
  const std::span<const SampledToken> drawn = runner_->run(parts_, from);
  for (const HeadPart& part : parts_) computed_tokens_ += part.count;
  if (guessers_.empty()) return;
  const double each = step_cost_ * static_cast<double>(running) / static_cast<double>(guessers_.size());
  for (std::size_t row = 0; row < guessers_.size(); ++row) {
    Guesser& one = guessers_[row];
    one.sequence->draft_budget.spend(each);
    earnings_.spend(each + cost_of_checking(running));
    one.state = static_cast<std::int64_t>(row);
    const SampledToken& token = drawn[row];
    if (std::isfinite(token.logit_sum) && token.id >= 0 && token.id < vocab_size_) {
      one.sequence->drafts.push_back(token.id);
    } else {
      one.most = 0;
    }
  }
}

}  // namespace tern::engine
