#include "engine/scheduler.h"

#include <algorithm>

namespace tern::engine {

void Scheduler::preempt_newest() {
  auto sequence = std::move(running_.back());
  running_.pop_back();
  cache_.release(sequence->blocks);
  sequence->computed = 0;
  waiting_.push_front(std::move(sequence));
  ++preemptions_;
}

std::vector<ScheduledSequence> Scheduler::schedule() {
  std::vector<ScheduledSequence> out;
  std::int64_t budget = options_.max_num_batched_tokens;
  const std::int64_t preempted_before = preemptions_;
  const auto take = [&](Sequence& sequence) {
    const std::int64_t count = std::min(budget, sequence.length() - sequence.computed);
    budget -= count;
    out.push_back({&sequence, sequence.computed, count, sequence.computed + count == sequence.length()});
  };
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const std::int64_t until = sequence.computed + std::min(budget, sequence.length() - sequence.computed);
    while (!cache_.grow(sequence.blocks, until)) {
      const bool itself = running_.size() == i + 1;
      preempt_newest();
      if (itself) return out;
    }
    take(sequence);
  }
  if (preemptions_ > preempted_before) return out;
  while (budget > 0 && admit_next()) take(*running_.back());
  return out;
}

bool Scheduler::admit_next() {
  if (waiting_.empty() || num_running() >= options_.max_num_seqs) return false;
  Sequence& sequence = *waiting_.front();
  if (cache_.blocks_for(sequence.length()) + num_running() > cache_.num_free()) return false;
  if (!cache_.grow(sequence.blocks, sequence.length())) return false;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

std::unique_ptr<Sequence> Scheduler::remove(SequenceId id) {
  const auto take_from = [&](auto& sequences) -> std::unique_ptr<Sequence> {
    const auto found =
        std::find_if(sequences.begin(), sequences.end(), [id](const auto& sequence) { return sequence->id == id; });
    if (found == sequences.end()) return nullptr;
    auto sequence = std::move(*found);
    sequences.erase(found);
    cache_.release(sequence->blocks);
    return sequence;
  };
  auto sequence = take_from(running_);
  return sequence ? std::move(sequence) : take_from(waiting_);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::collect_finished() {
  std::vector<std::unique_ptr<Sequence>> finished;
  for (auto& sequence : running_) {
    if (sequence->finish == FinishReason::none) continue;
    cache_.release(sequence->blocks);
    finished.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  return finished;
}

}  // namespace tern::engine
