// If these fail, sequences share cache blocks, starve, or are computed twice or not at all.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/philox.h"
#include "engine/prompt_budget.h"

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
  EXPECT_EQ(std::count(a.begin(), a.end(), 0), 0) << "block 0 takes rows of padding";
  EXPECT_FALSE(cache.grow(b, 17));
  EXPECT_TRUE(b.empty()) << "a refused request took blocks";
  cache.release(a);
  EXPECT_EQ(cache.num_free(), 4);
  EXPECT_TRUE(cache.grow(a, 64));
  EXPECT_EQ(*std::max_element(a.begin(), a.end()), 4);
}

TEST(Scheduler, FewTokensOfPromptsBesideAnswersWhereThatIsAsked) {
  BlockPool cache(64, 16);
  Scheduler scheduler({4, 100}, cache);
  scheduler.add(prompt(0, 90));
  carry_out(scheduler.schedule(), 20);
  scheduler.limit_prompts(24);
  scheduler.add(prompt(1, 70));
  scheduler.add(prompt(2, 30));
  // The second waits for the first, and takes what the first leaves.
  const std::vector<std::vector<std::int64_t>> steps = {{1, 24}, {1, 24}, {1, 22, 2}, {1, 1, 24}, {1, 1, 4}, {1, 1, 1}};
  for (const std::vector<std::int64_t>& counts : steps) {
    const Batch batch = scheduler.schedule();
    std::vector<std::int64_t> found;
    for (const ScheduledSequence& part : batch) found.push_back(part.count);
    EXPECT_EQ(found, counts);
    carry_out(batch, 20);
  }
  Scheduler alone({4, 100}, cache);
  alone.limit_prompts(24);
  alone.add(prompt(3, 90));
  EXPECT_EQ(alone.schedule()[0].count, 90) << "nobody waits for a token";
  // Nor does anybody where of a prompt one token is left.
  Scheduler two({4, 100}, cache);
  two.limit_prompts(24);
  two.add(prompt(4, 101));
  two.add(prompt(5, 60));
  carry_out(two.schedule(), 20);
  const Batch& last = two.schedule();
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[1].count, 60);
}

// A step takes 2 ms, half a millisecond for each answer's token and a quarter for each of a prompt. Where steps are
// prepared while the one before is computed, what is learned comes a step later.
TEST(PromptBudget, FindsWhatTheTargetLeavesForPrompts) {
  const auto after = [](double target, std::int64_t answers, bool prepared, int steps = 60) {
    PromptBudget budget(target, 512);
    double took = 0;
    std::int64_t before = budget.tokens();
    for (int step = 0; step < steps; ++step) {
      const std::int64_t limit = prepared ? std::exchange(before, budget.tokens()) : budget.tokens();
      took = 2e-3 + 5e-4 * static_cast<double>(answers) + 2.5e-4 * static_cast<double>(limit);
      budget.learn(limit, limit, took);
    }
    return std::pair(budget.tokens(), took);
  };
  for (const bool prepared : {false, true}) {
    EXPECT_NEAR(after(20e-3, 8, prepared).second, 20e-3, 1e-3);
    EXPECT_NEAR(static_cast<double>(after(20e-3, 8, prepared).first), 56, 4);
    EXPECT_EQ(after(1.0, 8, prepared).first, 512);
    EXPECT_EQ(after(1e-3, 8, prepared).first, PromptBudget::kLeast) << "prompts starve";
  }
  EXPECT_EQ(after(20e-3, 8, false, 1).first, after(20e-3, 8, true, 2).first) << "one long step counts once";
  PromptBudget none(0, 512);
  none.learn(512, 512, 100);
  EXPECT_EQ(none.tokens(), 512);
  PromptBudget few(20e-3, 512);
  few.learn(512, 512, 0.1);
  const std::int64_t found = few.tokens();
  few.learn(3, found, 1e-3);
  EXPECT_EQ(few.tokens(), found) << "what a step with few tokens takes says nothing of more of them";
  few.learn(found, found, 1e-3);
  EXPECT_LE(few.tokens(), found * 5 / 4);
  EXPECT_GT(few.tokens(), found);
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
  BlockPool cache(5, 4);
  Scheduler scheduler({4, 64}, cache);
  scheduler.add(prompt(0, 8));
  scheduler.add(prompt(1, 8));
  carry_out(scheduler.schedule(), 100);  // both prompts: four blocks, and both need a further one
  const auto batch = scheduler.schedule();
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_EQ(batch[0].sequence->id, 0);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  EXPECT_EQ(scheduler.num_preemptions(), 1);
}

// What a run of requests cost.
struct Cost {
  std::int64_t needed = 0;  // tokens of the finished sequences that keys and values are needed of
  std::int64_t computed = 0;
  std::int64_t preemptions = 0;
};

struct Load {
  std::int64_t blocks = 12;  // of 4 tokens
  std::int64_t seats = 5;
  std::int64_t batch = 16;  // tokens of a step
  std::int64_t longest_prompt = 24;
  std::int64_t longest_answer = 20;
};

// Twenty requests at random times. Every one ends once with all its tokens, no block has two owners, and all blocks
// come back.
void run_load(const Load& load, std::uint64_t seed, Cost& cost) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << load.blocks << " blocks, " << load.seats << " seats");
  constexpr std::int64_t kRequests = 20;
  BlockPool cache(load.blocks, 4);
  Scheduler scheduler({load.seats, load.batch}, cache);
  std::int64_t added = 0;
  std::set<SequenceId> finished;
  std::vector<std::int64_t> answers;
  for (std::uint32_t step = 0; step < 20000 && (added < kRequests || !scheduler.idle()); ++step) {
    const auto bits = philox(seed, {step, 0, 0, 0});
    if (added < kRequests && bits[0] % 3 == 0) {
      scheduler.add(prompt(added++, 1 + bits[1] % load.longest_prompt));
      answers.push_back(1 + bits[2] % load.longest_answer);
    }
    const std::int64_t preemptions = scheduler.num_preemptions();
    const std::int64_t waiting = scheduler.num_waiting();
    const auto batch = scheduler.schedule();
    if (scheduler.num_preemptions() > preemptions) {
      EXPECT_EQ(scheduler.num_waiting() - waiting, scheduler.num_preemptions() - preemptions)
          << "admitted in a step that preempted";
    }
    std::set<std::int32_t> blocks;
    std::size_t held = 0;
    std::int64_t tokens = 0;
    for (const auto& part : batch) {
      Sequence& sequence = *part.sequence;
      blocks.insert(sequence.blocks.begin(), sequence.blocks.end());
      held += sequence.blocks.size();
      tokens += part.count;
      ASSERT_GT(part.count, 0);
      ASSERT_GE(static_cast<std::int64_t>(sequence.blocks.size()) * 4, part.begin + part.count);
      sequence.computed = part.begin + part.count;
      if (!part.samples) continue;
      sequence.tokens.push_back(2);
      if (sequence.generated() >= answers[static_cast<std::size_t>(sequence.id)]) {
        sequence.finish = FinishReason::length;
      }
    }
    ASSERT_EQ(blocks.size(), held);
    ASSERT_LE(tokens, load.batch);
    cost.computed += tokens;
    for (const auto& sequence : scheduler.collect_finished()) {
      EXPECT_TRUE(finished.insert(sequence->id).second);
      EXPECT_EQ(sequence->generated(), answers[static_cast<std::size_t>(sequence->id)]);
      cost.needed += sequence->length() - 1;  // the last one drawn is not computed
    }
  }
  EXPECT_EQ(finished.size(), static_cast<std::size_t>(kRequests));
  EXPECT_EQ(cache.num_free(), load.blocks);
  cost.preemptions += scheduler.num_preemptions();
}

// What is thrown out is computed again: that must stay the exception, however tight the cache is.
TEST(Scheduler, AnyArrivalsEndAndLittleIsComputedTwice) {
  const Load loads[] = {{},
                        {.blocks = 40, .seats = 16, .batch = 64, .longest_prompt = 40, .longest_answer = 100},
                        {.blocks = 55, .seats = 16, .batch = 16, .longest_prompt = 200, .longest_answer = 16},
                        {.blocks = 30, .seats = 20, .batch = 32, .longest_prompt = 4, .longest_answer = 110},
                        {.blocks = 64, .seats = 8, .batch = 256, .longest_prompt = 120, .longest_answer = 120}};
  for (const Load& load : loads) {
    std::int64_t preemptions = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Cost cost;
      run_load(load, seed, cost);
      EXPECT_LE(cost.computed, 2 * cost.needed) << "seed " << seed << ", " << load.blocks << " blocks";
      preemptions += cost.preemptions;
    }
    EXPECT_GT(preemptions, 0) << "nothing was tested of preemption with " << load.blocks << " blocks";
  }
}

// What a step looks like from outside.
struct SeenPart {
  SequenceId id;
  std::int64_t begin, count;
  bool samples;
  std::int32_t seat;
  std::vector<std::int32_t> blocks;
  friend bool operator==(const SeenPart&, const SeenPart&) = default;
};
std::vector<SeenPart> seen(const Batch& batch) {
  std::vector<SeenPart> out;
  for (const auto& part : batch) {
    const Sequence& s = *part.sequence;
    out.push_back({s.id, part.begin, part.count, part.samples, s.seat, s.blocks});
  }
  return out;
}

struct Course {
  std::vector<std::vector<SeenPart>> steps;
  std::int64_t prepared = 0;  // steps that came as they were prepared
  std::int64_t preemptions = 0;
};

// Requests that come, end and are taken out at random times. Preparing must change nothing.
Course course_of(const Load& load, std::uint64_t seed, bool prepares) {
  constexpr std::int64_t kRequests = 15;
  BlockPool cache(load.blocks, 4);
  Scheduler scheduler({load.seats, load.batch}, cache);
  Course course;
  std::int64_t added = 0;
  for (std::uint32_t step = 0; step < 5000 && (added < kRequests || !scheduler.idle()); ++step) {
    const auto bits = philox(seed, {step, 0, 0, 0});
    if (added < kRequests && bits[0] % 5 == 0) scheduler.add(prompt(added++, 1 + bits[1] % load.longest_prompt));
    if (bits[0] % 11 == 0) (void)scheduler.remove(bits[2] % kRequests);
    const Batch& batch = scheduler.schedule();
    course.prepared += scheduler.was_prepared() ? 1 : 0;
    course.steps.push_back(seen(batch));
    if (prepares && bits[3] % 7 != 0) {
      if (const Batch* next = scheduler.prepare()) {
        EXPECT_FALSE(next->empty());
        if (bits[3] % 5 == 0) next = scheduler.prepare();  // again, in place of the first
        EXPECT_NE(next, nullptr);
      }
    }
    for (const auto& part : batch) {
      Sequence& sequence = *part.sequence;
      sequence.computed = part.begin + part.count;
      if (!part.samples) continue;
      const auto end = philox(seed, {step, 1, static_cast<std::uint32_t>(sequence.id), 0})[0];
      if (end % 13 == 0 || sequence.generated() >= load.longest_answer) {
        sequence.finish = FinishReason::stop;
        if (end % 2 == 0) continue;  // and not even a token
      }
      sequence.tokens.push_back(2);
    }
    (void)scheduler.collect_finished();
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(cache.num_free(), load.blocks) << "blocks were lost";
  course.preemptions = scheduler.num_preemptions();
  return course;
}

TEST(Scheduler, PreparingAStepChangesNoStep) {
  const Load loads[] = {{},
                        {.blocks = 40, .seats = 16, .batch = 64, .longest_prompt = 40, .longest_answer = 100},
                        {.blocks = 55, .seats = 6, .batch = 16, .longest_prompt = 100, .longest_answer = 16}};
  for (const Load& load : loads) {
    std::int64_t prepared = 0, steps = 0, preemptions = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Course plain = course_of(load, seed, false);
      const Course course = course_of(load, seed, true);
      ASSERT_EQ(course.steps, plain.steps) << "seed " << seed << ", " << load.blocks << " blocks";
      EXPECT_EQ(plain.prepared, 0);
      prepared += course.prepared;
      preemptions += course.preemptions;
      steps += static_cast<std::int64_t>(course.steps.size());
    }
    EXPECT_GT(prepared, steps / 4) << "of " << steps;
    EXPECT_LT(prepared, steps);
    EXPECT_GT(preemptions, 0);
  }
}

TEST(Scheduler, KnowsTheNextStepWhileNobodyComesOrGoes) {
  BlockPool cache(64, 4);
  Scheduler scheduler({4, 100}, cache);
  scheduler.add(prompt(0, 5));
  scheduler.add(prompt(1, 9));
  for (int step = 0; step < 20; ++step) {
    const Batch& batch = scheduler.schedule();
    EXPECT_EQ(scheduler.was_prepared(), step > 0);
    const Batch* next = scheduler.prepare();
    ASSERT_NE(next, nullptr);
    ASSERT_EQ(next->size(), 2U);
    EXPECT_EQ((*next)[1].begin, 9 + step);
    carry_out(batch, 100);
  }
  scheduler.add(prompt(2, 3));
  EXPECT_EQ(scheduler.schedule().size(), 3U) << "who comes waits for a step that was prepared without it";
  EXPECT_FALSE(scheduler.was_prepared());
}

// Two sequences in one row of the block tables would read each other's keys.
TEST(Scheduler, WhoRunsHasASeatOfItsOwn) {
  BlockPool cache(12, 4);
  Scheduler scheduler({3, 16}, cache);
  std::set<std::int32_t> used;
  for (SequenceId id = 0; id < 12; ++id) scheduler.add(prompt(id, 3 + id));
  for (int step = 0; step < 500 && !scheduler.idle(); ++step) {
    const Batch& batch = scheduler.schedule();
    std::set<std::int32_t> seats;
    for (const auto& part : batch) {
      EXPECT_GE(part.sequence->seat, 1);
      EXPECT_LE(part.sequence->seat, 3);
      EXPECT_TRUE(seats.insert(part.sequence->seat).second);
      used.insert(part.sequence->seat);
    }
    carry_out(batch, 10);
    for (const auto& sequence : scheduler.collect_finished()) EXPECT_EQ(sequence->seat, 0);
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_GT(scheduler.num_preemptions(), 0);
  EXPECT_EQ(used.size(), 3U);
}

TEST(Scheduler, TakesOutWhatWaitsAndWhatRuns) {
  BlockPool cache(8, 4);
  Scheduler scheduler({1, 8}, cache);
  scheduler.add(prompt(0, 20));
  scheduler.add(prompt(1, 20));
  carry_out(scheduler.schedule(), 10);  // a part of the first
  EXPECT_EQ(scheduler.remove(1)->id, 1);
  EXPECT_EQ(scheduler.num_waiting(), 0);
  EXPECT_EQ(scheduler.remove(0)->computed, 8);
  EXPECT_EQ(cache.num_free(), 8) << "its blocks stay taken";
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.remove(0), nullptr);
}

}  // namespace
}  // namespace tern::engine
