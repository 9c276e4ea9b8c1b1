// If these fail, some course of arrivals makes the scheduler lose blocks, share one that is written to, starve a
// request or compute without end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/philox.h"
#include "engine/scheduler.h"
#include "fuzz_load.h"

namespace tern::engine {
namespace {

constexpr std::int64_t kBlockSize = 4;

// Runs a load as an engine would, and knows beside the scheduler what must hold.
class Fuzzer : private SwapStore {
 public:
  Fuzzer(const FuzzLoad& load, std::uint64_t seed, bool prepares)
      : load_(load),
        seed_(seed),
        prepares_(prepares),
        cache_(load.blocks, kBlockSize),
        swap_(
            load.swap_blocks, [this] { return make_place(); }, load.stored ? this : nullptr),
        snapshots_(load.snapshots),
        scheduler_({load.seats, load.batch, load.max_loras}, cache_, load.swap_blocks > 0 ? &swap_ : nullptr,
                   load.snapshots > 0 ? &snapshots_ : nullptr),
        contents_(static_cast<std::size_t>((load.blocks + 1) * kBlockSize)) {
    for (std::int64_t id = 1; id <= load.adapters; ++id) {
      adapters_.push_back(std::make_shared<const ServedAdapter>(ServedAdapter{id, std::to_string(id), {}, {}}));
    }
  }

  void run() {
    for (std::uint32_t step = 0; step < 40000 && (added_ < load_.requests || !scheduler_.idle()); ++step) {
      step_ = step;
      arrive_and_abort();
      std::set<SequenceId> ran;
      go_on_ = false;
      for (const auto& [id, sequence] : arrivals_) {
        if (sequence->seat > 0) ran.insert(id);
        go_on_ |= sequence->seat > 0 && sequence->generated() > 0 && sequence->length() - sequence->computed <= 1;
      }
      const Batch& batch = scheduler_.schedule();
      steps.push_back({});
      check(batch);
      check_order(ran);
      check_shared(ran);
      check_adapters();
      copy();
      copy_states();
      write_some();
      if (testing::Test::HasFatalFailure()) return;
      if (load_.limits) scheduler_.limit_prompts(limit_ = 1 + draw(9, 0)[0] % load_.batch);
      if (prepares_ && draw(7, 0)[0] % 6 != 0) (void)scheduler_.prepare();
      compute(batch);
      collect();
      copy();
      if (draw(8, 0)[0] % (load_.snapshots > 0 ? 25 : 500) == 0) {
        scheduler_.reset_prefix_cache();
        for (auto& content : contents_) content.is_stale = true;
        for (auto& content : swapped_) content.is_stale = true;
        for (auto& [place, state] : kept_) state.is_stale = true;
        for (auto& [seat, state] : at_seats_) state.is_stale = true;
        for (const auto& [id, sequence] : arrivals_) {
          if (sequence->seat > 0) stale_.insert(id);
        }
      }
    }
    EXPECT_TRUE(scheduler_.idle()) << "somebody starves";
    EXPECT_EQ(ended_.size(), static_cast<std::size_t>(load_.requests));
    EXPECT_EQ(cache_.num_free(), load_.blocks) << "blocks were lost";
    EXPECT_EQ(scheduler_.adapters().num_held(), 0) << "slots were lost";
    for (std::int64_t b = 1; b <= load_.blocks; ++b) EXPECT_EQ(cache_.references(static_cast<std::int32_t>(b)), 0);
    preemptions = scheduler_.num_preemptions();
    hits = scheduler_.prefix_queries().hits;
    swap_hits = scheduler_.prefix_queries().swap_hits;
    swap_tokens = scheduler_.prefix_queries().swap_tokens;
  }

  std::vector<Seen> steps;
  std::int64_t computed = 0, needed = 0, preemptions = 0, hits = 0, prepared = 0, shared = 0, filled = 0;
  std::int64_t swap_hits = 0, swap_tokens = 0, copies = 0, fetches = 0, waited = 0;
  std::uint64_t loads = 0;  // from files
  std::int64_t restored = 0, kept = 0;

 private:
  // What the device holds at one place of one block: a token, and all that lies before it.
  struct Content {
    std::int32_t token = -1;
    std::uint64_t before = 0;
    bool is_stale = false;  // made with what was computed before the cache was reset
    friend bool operator==(const Content& a, const Content& b) { return a.token == b.token && a.before == b.before; }
  };
  using Contents = std::array<Content, kBlockSize>;
  struct State {
    std::uint64_t before = 0;  // all tokens that it holds
    bool is_stale = false;
  };
  struct Write {
    BlockHash hash{};
    std::int32_t place = 0;
    Contents contents{};
    bool is_void = false;  // forgotten meanwhile
  };

  [[nodiscard]] std::array<std::uint32_t, 4> draw(std::uint32_t what, std::uint32_t which) const {
    return philox(seed_, {step_, what, which, 0});
  }

  // Prompts begin with one of few texts, under one of two salts.
  void arrive_and_abort() {
    const auto bits = draw(0, 0);
    if (added_ < load_.requests && bits[0] % load_.every == 0) {
      auto sequence = std::make_unique<Sequence>();
      sequence->id = added_++;
      const std::int64_t length = 1 + bits[1] % load_.longest_prompt;
      const std::int64_t common = bits[2] % (load_.longest_prompt + 1);
      const auto text = static_cast<std::int32_t>(bits[3] % 3);
      for (std::int64_t i = 0; i < length; ++i) {
        sequence->tokens.push_back(i < common ? text : static_cast<std::int32_t>(1000 + sequence->id));
      }
      sequence->prompt_length = length;
      sequence->priority = load_.prioritised ? draw(1, 0)[0] % 3 : 0;
      salts_.push_back(draw(1, 0)[1] % 4 == 0 ? "b" : "a");
      answers_.push_back(1 + draw(1, 0)[2] % load_.longest_answer);
      if (const auto which = draw(9, 0)[0] % (load_.adapters + 1); which > 0) {
        sequence->adapter = adapters_[static_cast<std::size_t>(which - 1)];
      }
      const std::string adapter = sequence->adapter ? sequence->adapter->name : "";
      if (load_.cached) sequence->hashes = PrefixHashes(prefix_root(salts_.back(), adapter), {}, 0);
      arrivals_[sequence->id] = sequence.get();
      scheduler_.add(std::move(sequence));
    }
    if (bits[0] % 29 != 0 || added_ == 0) return;
    const auto removed = scheduler_.remove(draw(2, 0)[0] % added_);
    if (removed) end(*removed);
  }

  void end(const Sequence& sequence) {
    EXPECT_TRUE(ended_.insert(sequence.id).second) << sequence.id << " ended twice";
    EXPECT_TRUE(sequence.blocks.empty());
    arrivals_.erase(sequence.id);
    needed += furthest_[sequence.id];
  }

  void check(const Batch& batch) {
    prepared += scheduler_.was_prepared() ? 1 : 0;
    std::int64_t tokens = 0;
    for (const auto& [id, sequence] : arrivals_) {
      if (sequence->seat == 0) stale_.erase(id);
    }
    for (const auto& part : batch) {
      const Sequence& s = *part.sequence;
      tokens += part.count;
      ASSERT_GT(part.count, 0);
      ASSERT_LT(part.begin, s.length());
      ASSERT_LE(part.begin + part.count, static_cast<std::int64_t>(s.blocks.size()) * kBlockSize);
      steps.back().parts.push_back({s.id, part.begin, part.count, part.drafts, s.seat, s.blocks, s.adapter_slot});
    }
    ASSERT_LE(tokens, load_.batch);
    const std::int64_t beside = load_.limits && go_on_ ? prompt_tokens_beside_answers(batch) : 0;
    ASSERT_LE(beside, limit_);
    is_full_ = tokens == load_.batch || beside == limit_;
    ASSERT_LE(scheduler_.num_running(), load_.seats);
    ASSERT_TRUE(!batch.empty() || arrivals_.empty() || scheduler_.num_preemptions() > 0) << "nobody gets on";
    check_references();
  }

  // Holders are counted as they are, free blocks are all others, and who writes to a block is its only holder.
  void check_references() {
    std::map<std::int32_t, std::int32_t> holders;
    for (const auto& [id, sequence] : arrivals_) {
      std::set<std::int32_t> own(sequence->blocks.begin(), sequence->blocks.end());
      ASSERT_EQ(own.size(), sequence->blocks.size()) << "a block twice in one sequence";
      for (const std::int32_t block : sequence->blocks) ++holders[block];
    }
    for (std::int64_t b = 1; b <= load_.blocks; ++b) {
      const auto block = static_cast<std::int32_t>(b);
      const auto found = holders.find(block);
      ASSERT_EQ(cache_.references(block), found == holders.end() ? 0 : found->second) << "block " << block;
      shared += found != holders.end() && found->second > 1 ? 1 : 0;
    }
    ASSERT_EQ(cache_.num_free() + static_cast<std::int64_t>(holders.size()), load_.blocks);
    ASSERT_LE(cache_.num_cached(), cache_.num_free());
    for (const auto& [id, sequence] : arrivals_) {
      for (auto b = static_cast<std::size_t>(sequence->computed / kBlockSize); b < sequence->blocks.size(); ++b) {
        ASSERT_EQ(holders[sequence->blocks[b]], 1) << "a block that is written to has two holders";
      }
    }
  }

  // Who comes goes before all who wait, and who had to give its blocks up goes behind all who run.
  void check_order(const std::set<SequenceId>& ran) {
    for (const auto& [one, first] : arrivals_) {
      for (const auto& [two, second] : arrivals_) {
        if (first->seat == 0 || second->seat > 0) continue;
        ASSERT_TRUE(second->blocks.empty()) << "one that waits holds blocks";
        if (ran.contains(one) && !ran.contains(two)) continue;  // one ran already, and two came later
        ASSERT_LT(place(*first), place(*second));
      }
    }
  }

  // Of equal beginnings that run at once one is computed: who comes begins behind every block that one before it is to
  // compute. And who is first in line waits for nothing else.
  void check_shared(const std::set<SequenceId>& ran) {
    const std::int64_t preempted = scheduler_.num_preemptions();
    const bool gave_up = std::exchange(preempted_, preempted) != preempted;
    if (!load_.cached) return;
    const Sequence* first = nullptr;
    for (const auto& [id, sequence] : arrivals_) {
      if (sequence->seat > 0 && !ran.contains(id)) {
        ASSERT_EQ(awaited(*sequence, sequence->computed / kBlockSize), nullptr)
            << "sequence " << id << " computes what another computes";
      }
      const bool waits = sequence->seat == 0;
      if (waits && (first == nullptr || place(*sequence) < place(*first))) first = sequence;
    }
    if (first == nullptr || gave_up || load_.adapters > 0 || scheduler_.num_running() == load_.seats) return;
    const std::int64_t blocks = (first->length() + kBlockSize - 1) / kBlockSize + scheduler_.num_running();
    if (is_full_ || blocks > cache_.num_free()) return;
    ++waited;
    bool is_awaited = false;
    for (std::int64_t b = 0; b < (first->length() - 1) / kBlockSize; ++b) is_awaited |= awaited(*first, b) != nullptr;
    ASSERT_TRUE(is_awaited) << "sequence " << first->id << " waits for nothing";
  }
  static std::pair<std::int64_t, SequenceId> place(const Sequence& s) { return {s.priority, s.id}; }

  // One that runs, goes before `s` and computes its block `b` in this step or later; null: none.
  [[nodiscard]] const Sequence* awaited(const Sequence& s, std::int64_t b) const {
    const std::int64_t end = (b + 1) * kBlockSize;
    if (b >= (s.length() - 1) / kBlockSize) return nullptr;
    for (const auto& [id, other] : arrivals_) {
      if (other->seat == 0 || place(*other) >= place(s) || stale_.contains(id) || other->computed >= end) continue;
      if (salts_[static_cast<std::size_t>(id)] != salts_[static_cast<std::size_t>(s.id)]) continue;
      if (other->adapter != s.adapter || other->length() < end) continue;
      if (std::equal(s.tokens.begin(), s.tokens.begin() + end, other->tokens.begin())) return other;
    }
    return nullptr;
  }

  // Who runs finds its adapter in its slot, whatever others put there.
  void check_adapters() {
    scheduler_.adapters().fill_new([&](std::int32_t slot, const ServedAdapter& adapter) {
      in_slots_[slot] = adapter.id;
      ++filled;
    });
    for (const auto& [id, sequence] : arrivals_) {
      if (sequence->seat == 0 || !sequence->adapter) {
        ASSERT_EQ(sequence->adapter_slot, -1) << "sequence " << id;
      } else {
        ASSERT_LT(sequence->adapter_slot, load_.max_loras);
        ASSERT_EQ(in_slots_[sequence->adapter_slot], sequence->adapter->id) << "sequence " << id;
      }
    }
  }

  bool make_place() {
    if (static_cast<std::int64_t>(swapped_.size()) / kBlockSize >= load_.swap_places) return false;
    swapped_.resize(swapped_.size() + kBlockSize);
    EXPECT_LE(swapped_.size(), static_cast<std::size_t>(load_.swap_blocks * kBlockSize));
    return true;
  }

  // As the engine does, before the step is computed.
  void copy() {
    EXPECT_TRUE(load_.swap_blocks > 0 || swap_.copies().empty());
    for (const BlockCopy& one : swap_.copies()) {
      ++copies;
      fetches += one.to_device ? 1 : 0;
      for (std::int64_t i = 0; i < kBlockSize; ++i) {
        Content& there = contents_.at(static_cast<std::size_t>(one.block * kBlockSize + i));
        Content& here = swapped_.at(static_cast<std::size_t>(one.place * kBlockSize + i));
        (one.to_device ? there : here) = one.to_device ? here : there;
      }
    }
    for (const BlockCopy& one : swap_.copies()) {
      if (!load_.stored || one.to_device || swap_.place_of(one.hash) != one.place || files_.contains(one.hash))
        continue;
      swap_.pin(one.place);
      writes_.push_back({one.hash, one.place, at_place(one.place), false});
    }
    swap_.copied();
  }

  void copy_states() {
    EXPECT_LE(snapshots_.size(), load_.snapshots);
    for (const StateCopy& one : snapshots_.copies()) {
      ASSERT_LT(one.place, load_.snapshots);
      (one.to_seat ? restored : kept) += 1;
      if (one.to_seat) {
        at_seats_[one.seat] = kept_.at(one.place);
      } else {
        kept_[one.place] = at_seats_.at(one.seat);
      }
    }
    snapshots_.copied();
  }

  // A state holds all tokens before, and belongs to nobody else.
  void use_state(const ScheduledSequence& part, std::uint64_t before) {
    if (load_.snapshots == 0 || part.begin == 0) return;
    const State& state = at_seats_[part.sequence->seat];
    EXPECT_EQ(state.before, before) << "step " << step_ << ": sequence " << part.sequence->id
                                    << " has another's states at " << part.begin;
    EXPECT_TRUE(!state.is_stale || stale_.contains(part.sequence->id)) << "states that were reset were found";
  }

  // Files are written some steps later: the bytes are read from the place where they were left.
  void write_some() {
    while (!writes_.empty() && draw(10, static_cast<std::uint32_t>(writes_.size()))[0] % 3 == 0) {
      const Write write = writes_.front();
      writes_.erase(writes_.begin());
      EXPECT_EQ(at_place(write.place), write.contents) << "somebody wrote where a file is written from";
      if (!write.is_void) files_[write.hash] = write.contents;
      swap_.unpin(write.place);
    }
  }
  [[nodiscard]] Contents at_place(std::int32_t place) const {
    Contents out;
    std::copy_n(swapped_.begin() + place * kBlockSize, kBlockSize, out.begin());
    return out;
  }

  [[nodiscard]] bool has(const BlockHash& hash) const override { return files_.contains(hash); }
  void will_load(std::span<const BlockHash> hashes) override { EXPECT_FALSE(hashes.empty()); }
  bool load(const BlockHash& hash, std::int32_t place) override {
    copy();
    if (draw(11, static_cast<std::uint32_t>(++loads))[0] % 9 == 0) {
      files_.erase(hash);
      return false;
    }
    std::copy_n(files_.at(hash).begin(), kBlockSize, swapped_.begin() + place * kBlockSize);
    return true;
  }
  void use(const BlockHash& /*hash*/) override {}
  void forget(const BlockHash& hash) override {
    files_.erase(hash);
    for (Write& write : writes_) write.is_void = write.is_void || write.hash == hash;
  }
  void forget_all() override {
    files_.clear();
    for (Write& write : writes_) write.is_void = true;
  }

  [[nodiscard]] Content& content(const Sequence& sequence, std::int64_t at) {
    const std::int64_t block = sequence.blocks[static_cast<std::size_t>(at / kBlockSize)];
    return contents_[static_cast<std::size_t>(block * kBlockSize + at % kBlockSize)];
  }

  // Everything before a token must lie in the cache as this sequence would have computed it: the same tokens, the same
  // salt.
  void compute(const Batch& batch) {
    for (const auto& part : batch) {
      Sequence& s = *part.sequence;
      std::uint64_t before = mix_key(17, load_.cached && salts_[static_cast<std::size_t>(s.id)] == "b" ? 1 : 0);
      before = mix_key(before, s.adapter ? static_cast<std::uint64_t>(s.adapter->id) : 0);
      for (std::int64_t i = 0; i < part.begin + part.count; ++i) {
        if (i == part.begin) use_state(part, before);
        const std::int32_t token =
            i < s.length() ? s.tokens[static_cast<std::size_t>(i)] : s.drafts[static_cast<std::size_t>(i - s.length())];
        Content& there = content(s, i);
        if (i >= part.begin) there = {token, before, stale_.contains(s.id)};
        EXPECT_TRUE(!there.is_stale || stale_.contains(s.id)) << "what was reset was found";
        EXPECT_TRUE(there.token == token && there.before == before)
            << "step " << step_ << ": sequence " << s.id << " reads another's token at " << i;
        before = mix_key(before, static_cast<std::uint64_t>(token) + 1);
      }
      at_seats_[s.seat] = {before, stale_.contains(s.id)};
      computed += part.count - part.drafts;
      furthest_[s.id] = std::max(furthest_[s.id], part.begin + part.count - part.drafts);
      accept(part);
    }
  }

  // Guesses are right as far as chance has it.
  void accept(const ScheduledSequence& part) {
    Sequence& s = *part.sequence;
    s.computed = part.begin + part.count - part.drafts;
    if (!part.samples) return;
    const auto bits = draw(3, static_cast<std::uint32_t>(s.id));
    const std::int64_t right = part.drafts > 0 ? bits[0] % (part.drafts + 1) : 0;
    const std::vector<std::int32_t> drafts = s.drafts;
    s.drafts.clear();
    for (std::int64_t row = 0; row <= right && s.finish == FinishReason::none; ++row) {
      const bool is_right = row < right;
      s.tokens.push_back(is_right ? drafts[static_cast<std::size_t>(row)] : static_cast<std::int32_t>(bits[1] % 3));
      s.computed += is_right ? 1 : 0;
      if (s.generated() >= answers_[static_cast<std::size_t>(s.id)]) s.finish = FinishReason::length;
    }
    if (bits[2] % 200 == 0) s.finish = FinishReason::failed;
    if (s.finish == FinishReason::none && bits[3] % 9 == 0 && load_.snapshots == 0) s.drafts.assign(1 + bits[2] % 4, 2);
  }

  void collect() {
    for (const auto& sequence : scheduler_.collect_finished()) {
      steps.back().ended.push_back(sequence->id);
      end(*sequence);
    }
  }

  FuzzLoad load_;
  std::int64_t limit_ = load_.batch;
  bool go_on_ = false;  // answers, in this step
  bool is_full_ = false;
  std::uint64_t seed_;
  bool prepares_;
  BlockPool cache_;
  SwapTier swap_;
  StateSnapshots snapshots_;
  Scheduler scheduler_;
  std::vector<Content> contents_;
  std::vector<Content> swapped_;  // by place
  std::map<BlockHash, Contents> files_;
  std::vector<Write> writes_;
  std::map<std::int32_t, State> at_seats_, kept_;
  std::map<SequenceId, const Sequence*> arrivals_;  // that have not ended
  std::vector<AdapterRef> adapters_;
  std::map<std::int32_t, std::int64_t> in_slots_;  // the adapters on the device, by slot
  std::vector<std::string> salts_;
  std::vector<std::int64_t> answers_;
  std::map<SequenceId, std::int64_t> furthest_;  // tokens that were computed at least once
  std::set<SequenceId> ended_;
  std::set<SequenceId> stale_;  // that began before the cache was reset
  std::int64_t added_ = 0;
  std::int64_t preempted_ = 0;
  std::uint32_t step_ = 0;
};

TEST(SchedulerFuzz, WhateverComesEndsOnceAndLosesNothing) {
  const FuzzLoad loads[] = {
      {.prioritised = false},
      {},
      {.cached = false},
      {.blocks = 40, .seats = 16, .batch = 64, .longest_answer = 100, .every = 2},
      {.blocks = 120, .seats = 12, .batch = 24, .longest_prompt = 200, .longest_answer = 16, .every = 3},
      {.blocks = 28, .seats = 20, .batch = 32, .longest_prompt = 8, .longest_answer = 100, .every = 2},
      {.blocks = 40, .seats = 16, .batch = 64, .longest_answer = 100, .every = 2, .limits = true},
      {.adapters = 3, .max_loras = 1},
      {.blocks = 40, .seats = 16, .batch = 64, .longest_answer = 100, .every = 2, .adapters = 5, .max_loras = 3},
      {.swap_blocks = 1},
      {.swap_blocks = 1000, .swap_places = 9},
      {.blocks = 28, .seats = 20, .batch = 32, .longest_prompt = 60, .every = 2, .swap_blocks = 400},
      {.blocks = 40, .seats = 16, .batch = 64, .every = 2, .adapters = 5, .max_loras = 3, .swap_blocks = 64},
      {.swap_blocks = 3, .stored = true},
      {.blocks = 40, .seats = 16, .batch = 64, .every = 3, .swap_blocks = 24, .stored = true},
      {.snapshots = 1},
      {.blocks = 40, .seats = 16, .batch = 64, .longest_answer = 60, .every = 2, .snapshots = 64},
      {.blocks = 40, .seats = 16, .batch = 64, .every = 2, .adapters = 5, .max_loras = 3, .snapshots = 5},
      {.blocks = 28, .seats = 20, .batch = 32, .longest_prompt = 60, .every = 2, .swap_blocks = 400, .snapshots = 9}};
  for (const FuzzLoad& load : loads) {
    std::int64_t preemptions = 0, hits = 0, prepared = 0, shared = 0, steps = 0, filled = 0, fetches = 0, waited = 0;
    std::uint64_t loads = 0;
    std::int64_t restored = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << load.blocks << " blocks, " << load.swap_blocks
                                      << " of the second tier");
      Fuzzer plain(load, seed, false);
      plain.run();
      Fuzzer ahead(load, seed, true);
      ahead.run();
      if (HasFailure()) return;
      ASSERT_TRUE(plain.steps == ahead.steps) << "preparing steps changed them";
      EXPECT_LE(plain.computed, 2 * plain.needed);
      preemptions += plain.preemptions;
      hits += plain.hits;
      prepared += ahead.prepared;
      shared += plain.shared;
      filled += plain.filled;
      fetches += plain.fetches;
      waited += plain.waited;
      loads += plain.loads;
      EXPECT_EQ(plain.copies, ahead.copies);
      EXPECT_EQ(plain.kept, ahead.kept);
      restored += plain.restored;
      EXPECT_LE(plain.swap_hits, plain.swap_tokens);
      steps += static_cast<std::int64_t>(plain.steps.size());
    }
    EXPECT_GT(steps, 4000) << load.blocks;
    EXPECT_GT(preemptions, 0) << load.blocks;
    EXPECT_GT(prepared, 0) << load.blocks;
    EXPECT_EQ(filled > 0, load.max_loras > 0);
    EXPECT_EQ(hits > 0, load.cached);
    EXPECT_EQ(waited > 0, load.cached && load.adapters == 0);
    EXPECT_EQ(shared > 0, load.cached);
    EXPECT_EQ(loads > 0, load.stored);
    EXPECT_EQ(restored > 0, load.snapshots > 0);
    if (load.swap_blocks != 1) {
      EXPECT_EQ(fetches > 0, load.swap_blocks > 0) << load.swap_blocks << " blocks of the second tier";
    }
  }
}

}  // namespace
}  // namespace tern::engine
