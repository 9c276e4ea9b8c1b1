#include "engine/scheduler.h"

#include <algorithm>

namespace tern::engine {
namespace {

// How many tokens behind the first `computed` a step with room for `budget` takes of a sequence of `length`.
std::int64_t take_of(const Sequence& sequence, std::int64_t computed, std::int64_t length, std::int64_t budget) {
  return sequence.images.whole(computed, std::min(budget, length - computed));
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, BlockPool& cache) : options_(options), cache_(cache) {
  const auto most = static_cast<std::size_t>(options.max_num_seqs);
  free_seats_.reserve(most);
  for (std::int64_t seat = options.max_num_seqs; seat > 0; --seat) {
    free_seats_.push_back(static_cast<std::int32_t>(seat));
  }
  // A step allocates nothing.
  running_.reserve(most);
  batch_.reserve(most);
  prepared_.batch.reserve(most);
  prepared_.taken.reserve(most);
  prepared_.assumed.reserve(most);
}

void Scheduler::leave(Sequence& sequence) {
  cache_.release(sequence.blocks);
  if (sequence.seat > 0) free_seats_.push_back(sequence.seat);
  sequence.seat = 0;
}

void Scheduler::preempt_newest() {
  auto sequence = std::move(running_.back());
  running_.pop_back();
  leave(*sequence);
  sequence->computed = 0;
  sequence->drafts.clear();
  waiting_.push_front(std::move(sequence));
  ++preemptions_;
}

const Batch& Scheduler::schedule() {
  was_prepared_ = prepared_stands();
  if (was_prepared_) {
    batch_.swap(prepared_.batch);
    prepared_.batch.clear();
  } else {
    drop_prepared();
    schedule_anew();
  }
  return batch_;
}

void Scheduler::schedule_anew() {
  batch_.clear();
  std::int64_t budget = options_.max_num_batched_tokens;
  const std::int64_t preempted_before = preemptions_;
  const auto take = [&](Sequence& sequence) {
    const std::int64_t count = take_of(sequence, sequence.computed, sequence.reach(), budget);
    if (count == 0) return;
    budget -= count;
    const std::int64_t drafts = sequence.computed + count - sequence.length();
    batch_.push_back({&sequence, sequence.computed, count, drafts >= 0, std::max<std::int64_t>(drafts, 0)});
  };
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const auto until = [&] {
      return sequence.computed + take_of(sequence, sequence.computed, sequence.reach(), budget);
    };
    if (!sequence.drafts.empty() && !cache_.grow(sequence.blocks, until())) sequence.drafts.clear();
    while (!cache_.grow(sequence.blocks, until())) {
      const bool itself = running_.size() == i + 1;
      preempt_newest();
      if (itself) return;
    }
    take(sequence);
  }
  if (preemptions_ > preempted_before) return;
  while (budget > 0 && admit_next()) take(*running_.back());
}

bool Scheduler::can_admit() const {
  if (waiting_.empty() || num_running() >= options_.max_num_seqs) return false;
  return cache_.blocks_for(waiting_.front()->length()) + num_running() <= cache_.num_free();
}

bool Scheduler::admit_next() {
  if (!can_admit()) return false;
  Sequence& sequence = *waiting_.front();
  if (!cache_.grow(sequence.blocks, sequence.length())) return false;
  sequence.seat = free_seats_.back();
  free_seats_.pop_back();
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

// How the running sequences stand once the batch is computed. Its entries come in their order.
void Scheduler::assume() {
  prepared_.assumed.clear();
  auto part = batch_.begin();
  for (const auto& sequence : running_) {
    Assumed after{sequence.get(), sequence->computed, sequence->length()};
    if (part != batch_.end() && part->sequence == sequence.get()) {
      after.computed = part->begin + part->count;
      after.length += part->samples ? 1 : 0;
      ++part;
    }
    prepared_.assumed.push_back(after);
  }
}

const Batch* Scheduler::prepare() {
  drop_prepared();
  if (std::any_of(batch_.begin(), batch_.end(), [](const auto& part) { return part.drafts > 0; })) return nullptr;
  assume();
  std::int64_t& budget = prepared_.budget = options_.max_num_batched_tokens;
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const Assumed& after = prepared_.assumed[i];
    const std::int64_t count = take_of(sequence, after.computed, after.length, budget);
    if (count == 0) continue;
    const auto held = static_cast<std::int64_t>(sequence.blocks.size());
    if (!cache_.grow(sequence.blocks, after.computed + count)) {
      drop_prepared();
      return nullptr;
    }
    budget -= count;
    prepared_.taken.push_back(static_cast<std::int64_t>(sequence.blocks.size()) - held);
    prepared_.batch.push_back({&sequence, after.computed, count, after.computed + count == after.length});
  }
  if (budget > 0 && can_admit()) drop_prepared();
  return prepared_.batch.empty() ? nullptr : &prepared_.batch;
}

bool Scheduler::prepared_stands() const {
  if (prepared_.batch.empty() || prepared_.assumed.size() != running_.size()) return false;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Assumed& after = prepared_.assumed[i];
    const Sequence& now = *running_[i];
    if (&now != after.sequence || now.finish != FinishReason::none || now.computed != after.computed ||
        now.length() != after.length || !now.drafts.empty()) {
      return false;
    }
  }
  return prepared_.budget == 0 || !can_admit();
}

// In the reverse order, so that the free blocks lie as they did.
void Scheduler::drop_prepared() {
  for (std::size_t i = prepared_.batch.size(); i > 0; --i) {
    cache_.shrink(prepared_.batch[i - 1].sequence->blocks, prepared_.taken[i - 1]);
  }
  prepared_.batch.clear();
  prepared_.taken.clear();
}

std::unique_ptr<Sequence> Scheduler::remove(SequenceId id) {
  drop_prepared();
  const auto take_from = [&](auto& sequences) -> std::unique_ptr<Sequence> {
    const auto found =
        std::find_if(sequences.begin(), sequences.end(), [id](const auto& sequence) { return sequence->id == id; });
    if (found == sequences.end()) return nullptr;
    auto sequence = std::move(*found);
    sequences.erase(found);
    leave(*sequence);
    return sequence;
  };
  auto sequence = take_from(running_);
  return sequence ? std::move(sequence) : take_from(waiting_);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::collect_finished() {
  std::vector<std::unique_ptr<Sequence>> finished;
  for (auto& sequence : running_) {
    if (sequence->finish == FinishReason::none) continue;
    if (finished.empty()) drop_prepared();
    leave(*sequence);
    finished.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  return finished;
}

}  // namespace tern::engine
