// If these fail, sequences share cache blocks, starve, or are computed twice or not at all.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <set>

#include "base/philox.h"

namespace tern::engine {
namespace {

std::unique_ptr<Sequence> prompt(SequenceId id, std::int64_t length) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->tokens.assign(static_cast<std::size_t>(length), 1);
  sequence->prompt_length = length;
  return sequence;
}

// What the runner does with a step: keys and values are written, one token is drawn where the last one was computed.
void carry_out(const std::vector<ScheduledSequence>& batch, std::int64_t new_tokens) {
  for (const auto& part : batch) {
    Sequence& sequence = *part.sequence;
    sequence.computed = part.begin + part.count;
    if (!part.samples) continue;
    sequence.tokens.push_back(2);
    if (sequence.generated() >= new_tokens) sequence.finish = FinishReason::length;
  }
}

TEST(BlockPool, GrowsOnlyAsFarAsBlocksAreFree) {
  BlockPool cache(4, 16);
  std::vector<std::int32_t> a;
  std::vector<std::int32_t> b;
  EXPECT_TRUE(cache.grow(a, 33));
  EXPECT_EQ(a.size(), 3U);
  EXPECT_FALSE(cache.grow(b, 17));
  EXPECT_TRUE(b.empty()) << "a refused request took blocks";
  cache.release(a);
  EXPECT_EQ(cache.num_free(), 4);
}

TEST(Scheduler, ComputesALongPromptInChunksAndDrawsAfterTheLast) {
  BlockPool cache(64, 16);
  Scheduler scheduler({4, 100}, cache);
  scheduler.add(prompt(0, 250));
  for (const auto& [count, samples] : {std::pair{100, false}, std::pair{100, false}, std::pair{50, true}}) {
    const auto batch = scheduler.schedule();
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch[0].count, count);
    EXPECT_EQ(batch[0].samples, samples);
    carry_out(batch, 10);
  }
}

TEST(Scheduler, DecodesGoBeforeNewPrompts) {
  BlockPool cache(64, 16);
  Scheduler scheduler({4, 32}, cache);
  scheduler.add(prompt(0, 8));
  carry_out(scheduler.schedule(), 10);
  scheduler.add(prompt(1, 100));
  const auto batch = scheduler.schedule();
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch[0].sequence->id, 0);
  EXPECT_EQ(batch[0].count, 1);
  EXPECT_EQ(batch[1].count, 31);
}

TEST(Scheduler, GivesTheNewestOnesBlocksUpWhenTheCacheIsFull) {
  BlockPool cache(4, 4);
  Scheduler scheduler({4, 64}, cache);
  scheduler.add(prompt(0, 8));
  scheduler.add(prompt(1, 8));
  carry_out(scheduler.schedule(), 100);  // both prompts: all four blocks
  const auto batch = scheduler.schedule();
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_EQ(batch[0].sequence->id, 0);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  EXPECT_EQ(scheduler.num_preemptions(), 1);
}

// Whatever arrives, every sequence ends with all its tokens, no block has two owners, and all blocks come back.
TEST(Scheduler, AnyArrivalsEndAndNoBlockIsShared) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    BlockPool cache(12, 4);
    Scheduler scheduler({5, 16}, cache);
    std::int64_t added = 0;
    std::int64_t finished = 0;
    for (std::uint32_t step = 0; step < 2000 && (added < 20 || !scheduler.idle()); ++step) {
      const auto bits = philox(seed, {step, 0, 0, 0});
      if (added < 20 && bits[0] % 3 == 0) scheduler.add(prompt(added++, 1 + bits[1] % 24));
      const auto batch = scheduler.schedule();
      std::set<std::int32_t> blocks;
      std::size_t held = 0;
      std::int64_t tokens = 0;
      for (const auto& part : batch) {
        blocks.insert(part.sequence->blocks.begin(), part.sequence->blocks.end());
        held += part.sequence->blocks.size();
        tokens += part.count;
        EXPECT_GT(part.count, 0);
        EXPECT_GE(static_cast<std::int64_t>(part.sequence->blocks.size()) * 4, part.begin + part.count);
      }
      ASSERT_EQ(blocks.size(), held) << "seed " << seed;
      ASSERT_LE(tokens, 16);
      carry_out(batch, 1 + static_cast<std::int64_t>(bits[2] % 20));
      finished += static_cast<std::int64_t>(scheduler.collect_finished().size());
    }
    EXPECT_EQ(finished, 20) << "seed " << seed;
    EXPECT_EQ(cache.num_free(), 12) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tern::engine
