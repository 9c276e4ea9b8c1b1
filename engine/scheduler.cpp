#include "engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/step_room.h"

namespace tern::engine {
namespace {

// Whether a step behind the first `computed` of `length` tokens computes the last one of an answer so far.
bool goes_on(const Sequence& sequence, std::int64_t computed, std::int64_t length) {
  return length > sequence.prompt_length && length - computed <= 1;
}

bool goes_before(const Sequence& a, const Sequence& b) {
  return std::pair(a.priority, a.arrival) < std::pair(b.priority, b.arrival);
}

// Puts it in its place among those that lie in order.
template <typename Sequences>
void put_in_order(Sequences& sequences, std::unique_ptr<Sequence> sequence) {
  const auto place = std::upper_bound(sequences.begin(), sequences.end(), sequence,
                                      [](const auto& a, const auto& b) { return goes_before(*a, *b); });
  sequences.insert(place, std::move(sequence));
}

template <typename Sequences>
std::set<std::string> adapters_of(const Sequences& sequences) {
  std::set<std::string> names;
  for (const auto& sequence : sequences) {
    if (sequence->adapter) names.insert(sequence->adapter->name);
  }
  return names;
}

constexpr std::int64_t kNothingToPublish = std::numeric_limits<std::int64_t>::max();

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, BlockPool& cache, SwapTier* swap, StateSnapshots* states)
    : options_(options),
      cache_(cache),
      swap_(swap),
      states_(states),
      adapters_(options.max_loras),
      prompt_tokens_(options.max_num_batched_tokens) {
  if (swap_ != nullptr) cache_.list_given_out();
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

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrival = arrivals_++;
  put_in_order(waiting_, std::move(sequence));
}

// A block can be found once its step has been waited for: `computed` says so.
void Scheduler::publish(Sequence& sequence) {
  if (!sequence.hashes.active()) return;
  const std::int64_t full = sequence.hashes.full_blocks(sequence.computed, sequence.length(), cache_.block_size());
  if (full <= sequence.published) return;
  const auto hashes = sequence.hashes.first(full, sequence, cache_.block_size());
  for (auto b = static_cast<std::size_t>(sequence.published); b < hashes.size(); ++b) {
    cache_.publish(sequence.blocks[b], hashes[b]);
  }
  sequence.published = full;
}

// Behind the step that ended there, and before the next one writes over them.
void Scheduler::keep_states(Sequence& sequence) {
  if (states_ == nullptr || sequence.seat == 0 || sequence.published == kNothingToPublish) return;
  const std::int64_t end = sequence.computed;
  if (end == 0 || std::find(sequence.state_ends.begin(), sequence.state_ends.end(), end) == sequence.state_ends.end())
    return;
  states_->keep(sequence.hashes.first(end / cache_.block_size(), sequence, cache_.block_size()).back(), sequence.seat);
}

// What has been given out is still there until the next step writes over it.
void Scheduler::keep_given_out() {
  if (swap_ == nullptr) return;
  for (const BlockPool::GivenOut& one : cache_.given_out()) {
    if (cache_.find(one.hash) == 0) swap_->keep(one.hash, one.block);
  }
  cache_.clear_given_out();
}

void Scheduler::forget(Sequence& sequence) {
  cache_.forget(sequence.blocks);
  if (!sequence.hashes.active()) return;
  const std::int64_t full = sequence.hashes.full_blocks(sequence.computed, sequence.length(), cache_.block_size());
  for (const BlockHash& hash : sequence.hashes.first(full, sequence, cache_.block_size())) {
    if (swap_ != nullptr) swap_->forget(hash);
    if (states_ != nullptr) states_->forget(hash);
  }
}

// The first block is the one used last: without it the others can't be found.
void Scheduler::keep_what_ends(Sequence& sequence) {
  const auto found = static_cast<std::int64_t>(sequence.blocks.size());
  if (swap_ == nullptr || !swap_->keeps_what_ends() || !sequence.hashes.active() || sequence.published > found) return;
  const auto hashes = sequence.hashes.first(sequence.published, sequence, cache_.block_size());
  for (std::size_t b = hashes.size(); b-- > 0;) {
    if (!swap_->has(hashes[b])) swap_->keep(hashes[b], sequence.blocks[b]);
  }
}

void Scheduler::leave(Sequence& sequence, bool ends) {
  if (sequence.finish == FinishReason::failed) {
    forget(sequence);
  } else {
    publish(sequence);
    keep_states(sequence);
    if (ends) keep_what_ends(sequence);
  }
  sequence.published = 0;
  sequence.found_blocks = 0;
  sequence.state_ends = {};
  cache_.release(sequence.blocks);
  if (sequence.seat > 0) free_seats_.push_back(sequence.seat);
  sequence.seat = 0;
  if (sequence.adapter_slot >= 0) adapters_.give_back(sequence.adapter_slot);
  sequence.adapter_slot = -1;
  sequence.shadow.reset();
}

bool Scheduler::reserve(Sequence& sequence, std::int64_t tokens) {
  drop_prepared();
  const bool has_room = cache_.grow(sequence.blocks, tokens);
  keep_given_out();
  return has_room;
}

std::set<std::string> Scheduler::running_adapters() const { return adapters_of(running_); }
std::set<std::string> Scheduler::waiting_adapters() const { return adapters_of(waiting_); }

void Scheduler::preempt_newest() {
  auto sequence = std::move(running_.back());
  running_.pop_back();
  leave(*sequence, false);
  sequence->computed = 0;
  sequence->drafts.clear();
  put_in_order(waiting_, std::move(sequence));
  ++preemptions_;
}

void Scheduler::preempt_all() {
  drop_prepared();
  while (!running_.empty()) preempt_newest();
}

void Scheduler::reset_prefix_cache() {
  drop_prepared();
  cache_.forget_all();
  cache_.clear_given_out();
  if (swap_ != nullptr) swap_->forget_all();
  if (states_ != nullptr) states_->forget_all();
  for (const auto& sequence : running_) sequence->published = kNothingToPublish;
}

std::int64_t prompt_tokens_beside_answers(const Batch& batch) {
  std::int64_t of_prompts = 0;
  bool answers = false;
  for (const ScheduledSequence& part : batch) {
    const Sequence& sequence = *part.sequence;
    answers = answers || goes_on(sequence, part.begin, sequence.length());
    if (sequence.length() - part.begin > 1) of_prompts += part.count;
  }
  return answers ? of_prompts : 0;
}

const Batch& Scheduler::schedule() {
  for (const auto& sequence : running_) {
    publish(*sequence);
    keep_states(*sequence);
  }
  was_prepared_ = prepared_stands();
  if (was_prepared_) {
    batch_.swap(prepared_.batch);
    prepared_.batch.clear();
    batch_limit_ = prepared_limit_;
  } else {
    drop_prepared();
    schedule_anew();
    batch_limit_ = prompt_tokens_;
  }
  keep_given_out();
  return batch_;
}

void Scheduler::schedule_anew() {
  batch_.clear();
  const bool answers = std::any_of(running_.begin(), running_.end(),
                                   [](const auto& s) { return goes_on(*s, s->computed, s->length()); });
  StepRoom room(options_.max_num_batched_tokens, answers ? prompt_tokens_ : options_.max_num_batched_tokens);
  const std::int64_t preempted_before = preemptions_;
  const auto count_of = [&](const Sequence& sequence) {
    return room.take_of(sequence, sequence.computed, sequence.reach(), sequence.length());
  };
  const auto take = [&](Sequence& sequence) {
    const std::int64_t count = count_of(sequence);
    if (count == 0) return;
    room.give(count, sequence.length() - sequence.computed > 1);
    const std::int64_t drafts = sequence.computed + count - sequence.length();
    batch_.push_back({&sequence, sequence.computed, count, drafts >= 0, std::max<std::int64_t>(drafts, 0)});
  };
  for (std::size_t i = 0; i < running_.size() && room.any(); ++i) {
    Sequence& sequence = *running_[i];
    const auto until = [&] { return sequence.computed + count_of(sequence); };
    if (!sequence.drafts.empty() && !cache_.grow(sequence.blocks, until())) sequence.drafts.clear();
    while (!cache_.grow(sequence.blocks, until())) {
      const bool itself = running_.size() == i + 1;
      preempt_newest();
      if (itself) return;
    }
    take(sequence);
  }
  if (preemptions_ > preempted_before) return;
  while (room.for_others() > 0) {
    Sequence* admitted = admit_next();
    if (admitted == nullptr) break;
    take(*admitted);
  }
  // Who was admitted runs before others of a higher number.
  const auto in_order = [](const auto& a, const auto& b) { return goes_before(*a.sequence, *b.sequence); };
  if (!std::is_sorted(batch_.begin(), batch_.end(), in_order)) std::sort(batch_.begin(), batch_.end(), in_order);
}

// The hashes of the blocks that it may begin behind.
std::span<const BlockHash> Scheduler::sought(Sequence& sequence) const {
  if (!sequence.hashes.active() || sequence.skip_reading_prefix_cache) return {};
  return sequence.hashes.first((sequence.length() - 1) / cache_.block_size(), sequence, cache_.block_size());
}

// Of `hashes`, how many from the first on are there.
std::size_t Scheduler::num_found(std::span<const BlockHash> hashes) const {
  const auto is_there = [&](const BlockHash& hash) {
    return cache_.find(hash) > 0 || (swap_ != nullptr && swap_->has(hash));
  };
  return static_cast<std::size_t>(std::find_if_not(hashes.begin(), hashes.end(), is_there) - hashes.begin());
}

// The hashes of the blocks whose keys and values it can begin behind.
std::span<const BlockHash> Scheduler::known_prefix(Sequence& sequence) const {
  const std::span<const BlockHash> hashes = sought(sequence);
  return hashes.first(before_spans(sequence, num_found(hashes)));
}

// Whether one that runs, and goes before it, has still to compute the block that it would begin behind next, where it
// can begin behind the first `found`; or a later one, where it computes again what lacks copies of states.
bool Scheduler::is_being_computed(Sequence& sequence, std::size_t found) const {
  const std::span<const BlockHash> hashes = sought(sequence);
  if (found >= hashes.size()) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
    if (!goes_before(*other, sequence) || !other->hashes.active()) return false;
    const auto block = std::max(static_cast<std::int64_t>(found), other->published);
    if (block >= static_cast<std::int64_t>(hashes.size())) return false;
    if (other->hashes.full_blocks(other->length(), other->length(), cache_.block_size()) <= block) return false;
    const auto at = static_cast<std::size_t>(block);
    return other->hashes.first(block + 1, *other, cache_.block_size())[at] == hashes[at];
  });
}

// Of these, as many as have a copy of the states behind them, where layers keep any.
std::span<const BlockHash> Scheduler::with_states(std::span<const BlockHash> prefix) const {
  if (states_ == nullptr) return prefix;
  while (!prefix.empty() && !states_->has(prefix.back())) prefix = prefix.first(prefix.size() - 1);
  return prefix;
}

// The states behind what it begins behind, and where copies of its own are taken: few places, as each ends a step.
// `known`: blocks from its first on whose keys and values were there.
void Scheduler::begin_states(Sequence& sequence, std::span<const BlockHash> prefix, std::size_t known) {
  if (states_ == nullptr || !sequence.hashes.active()) return;
  if (!prefix.empty()) states_->restore(prefix.back(), sequence.seat);
  const std::int64_t size = cache_.block_size();
  const auto of_prompt = static_cast<std::size_t>((sequence.prompt_length - 1) / size);
  sequence.state_ends = {static_cast<std::int64_t>(known) * size,
                         static_cast<std::int64_t>(before_spans(sequence, of_prompt)) * size};
}

// Of the first `blocks`, those that end within no image's span.
std::size_t Scheduler::before_spans(const Sequence& sequence, std::size_t blocks) const {
  const auto cuts_span = [&] {
    const auto end = static_cast<std::int64_t>(blocks) * cache_.block_size();
    return sequence.images.span_at(end).begin < end && end < sequence.images.span_at(end).end;
  };
  while (blocks > 0 && cuts_span()) --blocks;
  return blocks;
}

bool Scheduler::can_admit() const {
  if (waiting_.empty() || num_running() >= options_.max_num_seqs) return false;
  Sequence& sequence = *waiting_.front();
  if (sequence.adapter && !adapters_.has_room_for(*sequence.adapter)) return false;
  const std::span<const BlockHash> hashes = sought(sequence);
  if (is_being_computed(sequence, with_states(hashes.first(num_found(hashes))).size())) return false;
  if (fits(sequence, {})) return true;
  return sequence.hashes.active() && fits(sequence, longest_prefix(sequence));
}

// Blocks that others hold take none of the free ones.
bool Scheduler::fits(const Sequence& sequence, std::span<const BlockHash> prefix) const {
  const std::int64_t most = cache_.blocks_for(sequence.length()) + num_running();
  const auto held = std::count_if(prefix.begin(), prefix.end(), [&](const BlockHash& hash) {
    const std::int32_t block = cache_.find(hash);
    return block > 0 && cache_.references(block) > 0;
  });
  return most - held <= cache_.num_free();
}

// What it can begin behind now: blocks of the second tier are held, and what that can't bring ends the run.
std::span<const BlockHash> Scheduler::hold_prefix(Sequence& sequence) {
  keep_given_out();
  const std::span<const BlockHash> hashes = longest_prefix(sequence);
  if (swap_ == nullptr) return hashes;
  const auto is_away = [&](const BlockHash& hash) { return cache_.find(hash) == 0; };
  std::vector<BlockHash> away;
  std::copy_if(hashes.begin(), hashes.end(), std::back_inserter(away), is_away);
  if (away.empty()) return hashes;
  swap_->will_hold(away);
  std::size_t held = 0;
  while (held < hashes.size() && (!is_away(hashes[held]) || swap_->hold(hashes[held]))) ++held;
  if (held == hashes.size()) return hashes;
  const std::size_t whole = with_states(hashes.first(before_spans(sequence, held))).size();
  let_go(hashes.subspan(whole, held - whole));
  return hashes.first(whole);
}

void Scheduler::let_go(std::span<const BlockHash> prefix) {
  for (const BlockHash& hash : prefix) {
    if (cache_.find(hash) == 0) swap_->let_go(hash);
  }
}

// The blocks that it begins behind: it shares those of the device, and blocks of its own are for those that are held of
// the second tier. Gives how many these are.
std::int64_t Scheduler::take_prefix(Sequence& sequence, std::span<const BlockHash> hashes) {
  std::int64_t missing = 0;
  for (const BlockHash& hash : hashes) {
    const std::int32_t block = cache_.find(hash);
    sequence.blocks.push_back(block);
    if (block > 0) {
      cache_.share(block);
    } else {
      ++missing;
    }
  }
  if (missing == 0) return 0;
  std::vector<std::int32_t> fresh;
  if (!cache_.grow(fresh, missing * cache_.block_size())) throw std::logic_error("who may be admitted got no blocks");
  keep_given_out();
  // The first block is the one used last: without it the others can't be found.
  for (std::size_t b = hashes.size(); b-- > 0;) {
    if (sequence.blocks[b] > 0) continue;
    sequence.blocks[b] = fresh.back();
    fresh.pop_back();
    swap_->fetch(hashes[b], sequence.blocks[b]);
    cache_.publish(sequence.blocks[b], hashes[b]);
  }
  return missing;
}

Sequence* Scheduler::admit_next() {
  if (!can_admit()) return nullptr;
  Sequence& sequence = *waiting_.front();
  const std::span<const BlockHash> prefix = hold_prefix(sequence);
  // What the second tier could not bring may be what another computes.
  if (!fits(sequence, prefix) || (swap_ != nullptr && is_being_computed(sequence, prefix.size()))) {
    let_go(prefix);
    return nullptr;
  }
  const std::size_t known = states_ == nullptr ? prefix.size() : known_prefix(sequence).size();
  const std::int64_t fetched = take_prefix(sequence, prefix) * cache_.block_size();
  sequence.found_blocks = sequence.published = static_cast<std::int64_t>(sequence.blocks.size());
  sequence.computed = sequence.found_blocks * cache_.block_size();
  if (sequence.hashes.active() && !std::exchange(sequence.was_admitted, true)) {
    sequence.cached = sequence.computed;
    queries_.tokens += sequence.length();
    queries_.hits += sequence.cached - fetched;
    if (swap_ != nullptr) {
      queries_.swap_tokens += sequence.length() - (sequence.cached - fetched);
      queries_.swap_hits += fetched;
    }
  }
  if (!cache_.grow(sequence.blocks, sequence.length())) throw std::logic_error("who may be admitted got no blocks");
  sequence.seat = free_seats_.back();
  free_seats_.pop_back();
  if (sequence.adapter) sequence.adapter_slot = adapters_.take(sequence.adapter);
  begin_states(sequence, prefix, known);
  put_in_order(running_, std::move(waiting_.front()));
  waiting_.pop_front();
  return &sequence;
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
  const bool answers = std::any_of(prepared_.assumed.begin(), prepared_.assumed.end(), [](const Assumed& after) {
    return goes_on(*after.sequence, after.computed, after.length);
  });
  StepRoom room(options_.max_num_batched_tokens, answers ? prompt_tokens_ : options_.max_num_batched_tokens);
  for (std::size_t i = 0; i < running_.size() && room.any(); ++i) {
    Sequence& sequence = *running_[i];
    const Assumed& after = prepared_.assumed[i];
    const std::int64_t count = room.take_of(sequence, after.computed, after.length, after.length);
    if (count == 0) continue;
    const auto held = static_cast<std::int64_t>(sequence.blocks.size());
    if (!cache_.grow(sequence.blocks, after.computed + count)) {
      drop_prepared();
      return nullptr;
    }
    room.give(count, after.length - after.computed > 1);
    prepared_.taken.push_back(static_cast<std::int64_t>(sequence.blocks.size()) - held);
    prepared_.batch.push_back({&sequence, after.computed, count, after.computed + count == after.length});
  }
  prepared_.budget = room.for_others();
  prepared_limit_ = prompt_tokens_;
  if (prepared_.budget > 0 && can_admit()) drop_prepared();
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
    cache_.undo_grow(prepared_.batch[i - 1].sequence->blocks, prepared_.taken[i - 1]);
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
    leave(*sequence, true);
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
    leave(*sequence, true);
    finished.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  return finished;
}

}  // namespace tern::engine
