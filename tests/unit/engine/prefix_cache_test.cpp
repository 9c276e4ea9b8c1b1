// If these fail, answers hang on what others asked before, tenants see each other's prompts, or prefixes are computed
// again and again.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/dtype.h"
#include "base/log.h"
#include "cached_answers.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

BlockHash hash_number(int number) {
  BlockHash hash{};
  hash[0] = static_cast<std::byte>(number % 2);  // many in one slot
  hash[31] = static_cast<std::byte>(number);
  return hash;
}

TEST(BlockPool, FindsWhatWasPublishedUntilItIsGivenOut) {
  BlockPool pool(4, 4);
  std::vector<std::int32_t> a, b;
  ASSERT_TRUE(pool.grow(a, 12));
  const std::vector<std::int32_t> held = a;
  for (int i = 0; i < 3; ++i) pool.publish(a[static_cast<std::size_t>(i)], hash_number(i));
  pool.release(a);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.num_cached(), 3);
  ASSERT_TRUE(pool.grow(b, 8));  // the one that holds nothing, then the prefix's tail
  EXPECT_EQ(pool.find(hash_number(2)), 0);
  EXPECT_EQ(pool.find(hash_number(1)), held[1]);
  pool.undo_grow(b, 1);
  EXPECT_EQ(pool.find(hash_number(2)), held[2]) << "what was taken back is lost";
  pool.share(held[0]);
  pool.share(held[0]);
  EXPECT_EQ(pool.references(held[0]), 2);
  EXPECT_EQ(pool.num_cached(), 2);
  a = {held[0]};
  pool.release(a);
  a = {held[0]};
  EXPECT_EQ(pool.num_free(), 2);
  pool.forget(a);
  EXPECT_EQ(pool.find(hash_number(0)), 0);
  pool.forget_all();
  EXPECT_EQ(pool.find(hash_number(1)), 0);
  EXPECT_EQ(pool.num_cached(), 0);
}

Sequence sequence_of(std::vector<std::int32_t> tokens) {
  Sequence sequence;
  sequence.prompt_length = static_cast<std::int64_t>(tokens.size());
  sequence.tokens = std::move(tokens);
  return sequence;
}

TEST(PrefixHashes, HangOnAllThatKeysHangOn) {
  const auto second = [](const BlockHash& root, const std::vector<std::int32_t>& ids) {
    const Sequence sequence = sequence_of(ids);
    return PrefixHashes(root, {}, 2).first(2, sequence, 4)[1];
  };
  const BlockHash root = prefix_root("", "");
  auto other = prompt_of(1, 8);
  const BlockHash plain = second(root, other);
  EXPECT_EQ(second(root, prompt_of(1, 8)), plain);
  for (std::size_t i = 0; i < other.size(); ++i) {
    ++other[i];
    EXPECT_NE(second(root, other), plain) << "token " << i << " counts for nothing";
    --other[i];
  }
  EXPECT_NE(second(prefix_root("a", ""), other), plain);
  EXPECT_NE(second(prefix_root("", "a"), other), plain);
  EXPECT_NE(prefix_root("a", ""), prefix_root("", "a"));
  EXPECT_NE(prefix_root("ab", "c"), prefix_root("a", "bc"));
  session::ImagePatches image;
  image.patches = {0, 1, 2, 3};
  image.grids = {{1, 2, 2}};
  const BlockHash seen = image_hash(image);
  image.patches[3] = 4;
  EXPECT_NE(image_hash(image), seen);
  image.patches[3] = 3;
  image.grids = {{1, 1, 4}};
  EXPECT_NE(image_hash(image), seen);
}

std::unique_ptr<Sequence> hashed_prompt(SequenceId id, std::int32_t length, std::int64_t priority = 0) {
  auto sequence = std::make_unique<Sequence>(sequence_of(prompt_of(1, length)));
  sequence->id = id;
  sequence->priority = priority;
  sequence->hashes = PrefixHashes(prefix_root("", ""), {}, 0);
  return sequence;
}
void compute(const Batch& batch) {
  for (const ScheduledSequence& part : batch) {
    part.sequence->computed = part.begin + part.count;
    if (part.samples) part.sequence->tokens.push_back(2);
  }
}

// Numbers that were not finite would fail everybody after.
TEST(Scheduler, NobodyFindsTheBlocksOfAFailedSequence) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::failed}) {
    BlockPool pool(16, 4);
    Scheduler scheduler({4, 8}, pool);
    scheduler.add(hashed_prompt(0, 20));
    for (int step = 0; step < 2; ++step) compute(scheduler.schedule());
    const Batch& last = scheduler.schedule();
    compute(last);
    last[0].sequence->finish = reason;
    (void)scheduler.collect_finished();
    scheduler.add(hashed_prompt(1, 20));
    EXPECT_EQ(scheduler.schedule().at(0).begin, reason == FinishReason::stop ? 16 : 0);
  }
}

// Who came first gives its blocks up before who is more urgent.
TEST(Scheduler, TheHighestNumberGivesItsBlocksUpFirst) {
  BlockPool pool(5, 4);
  Scheduler scheduler({4, 64}, pool);
  for (const SequenceId id : {0, 1}) {
    auto sequence = hashed_prompt(id, 8, 1 - id);
    sequence->hashes = {};
    scheduler.add(std::move(sequence));
  }
  compute(scheduler.schedule());  // four blocks, and both need a further one
  const Batch& batch = scheduler.schedule();
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_EQ(batch[0].sequence->id, 1);
  EXPECT_EQ(scheduler.num_preemptions(), 1);
}

std::vector<std::int64_t> counts_of(const Batch& batch) {
  std::vector<std::int64_t> counts;
  for (const ScheduledSequence& part : batch) counts.push_back(part.count);
  return counts;
}

using StepCounts = std::vector<std::int64_t>;

// The others wait for the blocks of the first, and not for its last tokens.
TEST(Scheduler, EqualPromptsThatComeTogetherAreComputedOnce) {
  const auto steps = [](std::int64_t budget) {
    BlockPool pool(64, 4);
    Scheduler scheduler({4, budget}, pool);
    for (const SequenceId id : {0, 1, 2}) scheduler.add(hashed_prompt(id, 30));
    std::vector<StepCounts> out;
    while (out.size() < 5 && (out.empty() || out.back() != StepCounts{1, 1, 1})) {
      const Batch& batch = scheduler.schedule();
      out.push_back(counts_of(batch));
      compute(batch);
    }
    EXPECT_EQ(scheduler.prefix_queries().hits, 2 * 28);
    return out;
  };
  EXPECT_EQ(steps(64), (std::vector<StepCounts>{{30}, {1, 2, 2}, {1, 1, 1}}));
  EXPECT_EQ(steps(16), (std::vector<StepCounts>{{16}, {14}, {1, 2, 2}, {1, 1, 1}}));
}

// Two of a kind whose blocks are known, and of whose states no copy is left: the first computes them again, for both.
TEST(Scheduler, StatesThatAreMadeAgainAreWaitedFor) {
  BlockPool pool(64, 4);
  StateSnapshots snapshots(4);
  Scheduler scheduler({4, 64}, pool, nullptr, &snapshots);
  const auto run = [&](std::size_t most) {
    std::vector<StepCounts> out;
    while (out.size() < most) {
      const Batch& batch = scheduler.schedule();
      snapshots.copied();
      out.push_back(counts_of(batch));
      compute(batch);
    }
    return out;
  };
  scheduler.add(hashed_prompt(0, 30));
  EXPECT_EQ(run(2), (std::vector<StepCounts>{{28}, {2}}));
  scheduler.add(hashed_prompt(1, 30));
  EXPECT_EQ(run(1), (std::vector<StepCounts>{{1, 2}})) << "it begins behind the copy";
  (void)scheduler.remove(0);
  (void)scheduler.remove(1);
  snapshots.forget_all();
  scheduler.add(hashed_prompt(2, 30));
  scheduler.add(hashed_prompt(3, 30));
  EXPECT_EQ(run(2), (std::vector<StepCounts>{{28}, {2, 2}}));
}

TEST(Scheduler, NobodyWaitsForWhatWillNotCome) {
  // The first has 30 of its 40 tokens, and takes 10 of the 30 that a step has; the second wants the same.
  const auto second_step = [](const std::function<void(Scheduler&, Sequence&)>& change) {
    BlockPool pool(64, 4);
    Scheduler scheduler({4, 30}, pool);
    scheduler.add(hashed_prompt(0, 40, 1));
    compute(scheduler.schedule());
    auto other = hashed_prompt(1, 40, 1);
    change(scheduler, *other);
    scheduler.add(std::move(other));
    return counts_of(scheduler.schedule());
  };
  EXPECT_EQ(second_step([](Scheduler&, Sequence&) {}), (StepCounts{10})) << "it computes what is being computed";
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { other.priority = 0; }), (StepCounts{12, 10}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { other.priority = 2; }), (StepCounts{10}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { ++other.tokens[0]; }), (StepCounts{10, 20}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { ++other.tokens[30]; }), (StepCounts{10, 12}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { other.tokens.resize(29); }), (StepCounts{10, 1}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { other.skip_reading_prefix_cache = true; }),
            (StepCounts{10, 20}));
  EXPECT_EQ(second_step([](Scheduler&, Sequence& other) { other.hashes = {}; }), (StepCounts{10, 20}));
  EXPECT_EQ(
      second_step([](Scheduler&, Sequence& other) { other.hashes = PrefixHashes(prefix_root("another", ""), {}, 0); }),
      (StepCounts{10, 20}));
  EXPECT_EQ(second_step([](Scheduler& scheduler, Sequence&) { scheduler.reset_prefix_cache(); }), (StepCounts{10, 20}));
  EXPECT_EQ(second_step([](Scheduler& scheduler, Sequence&) { (void)scheduler.remove(0); }), (StepCounts{12}));
}

// To the bit, with and without penalties, whose history lies in blocks that another computed.
void expect_cached_is_cold(models::LoadedModel& model, tern_dtype cache_dtype = TERN_F32) {
  session::Runtime runtime;
  const auto engine_of = [&](bool caches) {
    EngineOptions options = cached_engine(*model.store->device(), caches);
    options.cache_dtype = cache_dtype;
    return options;
  };
  LLMEngine cold(model, any_tokenizer(), engine_of(false), runtime);
  LLMEngine warm(model, any_tokenizer(), engine_of(true), runtime);
  const std::int64_t block = warm.cache().block_size();
  const auto length = static_cast<std::int32_t>(2 * block + 9);
  for (const SamplingParams& params : {greedy(24), penalised(24)}) {
    auto prompt = prompt_of(5, length);
    const CachedAnswer first = ask(warm, prompt, params);
    EXPECT_EQ(first, ask(cold, prompt, params));
    // Another sits where the first one sat: no seat's table has the blocks yet.
    for (int i = 0; i < 7; ++i) prompt.push_back(11 + i);
    (void)warm.add_request(prompt_of(90, 5), greedy(30)).value();
    const CachedAnswer second = ask(warm, prompt, params);
    EXPECT_EQ(second.cached, 2 * block);
    EXPECT_EQ(second, ask(cold, prompt, params));
    // The whole prompt is there: one block is computed again, for its logits.
    prompt.resize(static_cast<std::size_t>(2 * block));
    const CachedAnswer whole = ask(warm, prompt, params);
    EXPECT_EQ(whole.cached, block);
    EXPECT_EQ(whole, ask(cold, prompt, params));
    warm.reset_prefix_cache();
    EXPECT_EQ(ask(warm, prompt, params).cached, 0);
    warm.reset_prefix_cache();
  }
  EXPECT_EQ(cold.cache_statistics().query_tokens, 0);
  const CacheStatistics statistics = warm.cache_statistics();
  EXPECT_EQ(statistics.used_blocks, 0);
  EXPECT_EQ(statistics.hit_tokens, 2 * 3 * block);
  EXPECT_EQ(statistics.query_tokens, 2 * (2 * length + 7 + 5 + 4 * block));
}

TEST(PrefixCache, CachedIsCold) {
  for (const char* name : {"llama-tied", "gemma2-tied", "deepseek-v3-untied", "gemma4-tied"}) {
    SCOPED_TRACE(name);
    auto model = tiny_model(name);
    expect_cached_is_cold(model);
  }
}

// However its steps are cut, each as if it were alone.
TEST(PrefixCache, EqualPromptsAskedTogetherAreComputedOnce) {
  auto model = tiny_model();
  constexpr std::int64_t kAnswers = 4;
  constexpr std::int64_t kTokens = 12;
  for (const std::int64_t budget : {64, 20}) {
    SCOPED_TRACE(budget);
    const auto answers = [&](bool caches) {
      session::Runtime runtime;
      EngineOptions options = cached_engine(*model.store->device(), caches);
      options.max_num_batched_tokens = budget;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      const std::int64_t block = engine.cache().block_size();
      for (std::int64_t i = 0; i < kAnswers; ++i) {
        SamplingParams params = greedy(kTokens);
        params.temperature = 1;
        params.sample = static_cast<std::uint64_t>(i);
        EXPECT_TRUE(engine.add_request(prompt_of(5, static_cast<std::int32_t>(2 * block + 9)), params).ok());
      }
      auto out = answers_of(engine);
      const std::int64_t others = caches ? 9 : 2 * block + 9;
      EXPECT_EQ(engine.num_computed_tokens(), 2 * block + 9 + (kAnswers - 1) * others + kAnswers * (kTokens - 1));
      EXPECT_EQ(engine.cache_statistics().hit_tokens, caches ? (kAnswers - 1) * 2 * block : 0);
      return out;
    };
    const auto together = answers(true);
    EXPECT_EQ(together, answers(false));
    EXPECT_NE(together.at(0).tokens, together.at(1).tokens);
  }
}

TEST(PrefixCache, CachedIsColdOnTheSim) {
  const test::SimEnvironment environment({});
  auto model = tiny_model_on(accel::Device::open(test::load_plugin("sim"), 0).value());
  expect_cached_is_cold(model);
}

// A block has the scales of its keys and values.
TEST(PrefixCache, CachedIsColdInEightBits) {
  for (const tern_dtype dtype : {TERN_I8, TERN_F8_E4M3}) {
    for (const char* name : {"llama-tied", "gemma2-tied", "gemma4-tied"}) {
      SCOPED_TRACE(name);
      auto model = tiny_model(name);
      expect_cached_is_cold(model, dtype);
    }
  }
}

// A prompt's chunks read what they wrote themselves: as long as the prompt or of a token each, alone or among others,
// they leave the same bits.
TEST(PrefixCache, ChunkedIsWholeInEightBits) {
  auto model = tiny_model();
  for (const tern_dtype dtype : {TERN_I8, TERN_F8_E4M3}) {
    std::vector<CachedAnswer> answers;
    for (const std::int64_t chunk : {64, 24, 7, 4}) {
      session::Runtime runtime;
      EngineOptions options = cached_engine(*model.store->device(), false);
      options.cache_dtype = dtype;
      options.max_num_batched_tokens = chunk;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      answers.push_back(ask(engine, prompt_of(5, 61), greedy(20)));
      std::vector<SequenceId> ids;
      for (std::int32_t i = 0; i < 4; ++i) {
        ids.push_back(engine.add_request(prompt_of(5 - 5 * (i % 2), 61), greedy(20)).value());
      }
      auto together = answers_of(engine);
      answers.push_back(together.at(ids[0]));
      answers.push_back(together.at(ids[2]));
    }
    for (const CachedAnswer& answer : answers) EXPECT_EQ(answer, answers[0]) << dtype_name(dtype);
  }
}

// An answer is a prefix too: a dialogue's next turn holds it.
TEST(PrefixCache, FindsWhatWasDrawn) {
  auto model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), cached_engine(*model.store->device(), true), runtime);
  const std::int64_t block = engine.cache().block_size();
  auto prompt = prompt_of(5, static_cast<std::int32_t>(block));
  const CachedAnswer first = ask(engine, prompt, greedy(2 * block + 3));
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  prompt.push_back(9);
  EXPECT_EQ(ask(engine, prompt, greedy(1)).cached, 3 * block);
}

// Wrong guesses lie in blocks that are written over before anybody finds them.
TEST(PrefixCache, OnlyRightGuessesCount) {
  auto model = tiny_model();
  session::Runtime runtime;
  EngineOptions options = cached_engine(*model.store->device(), true);
  const EngineOptions cold = cached_engine(*model.store->device(), false);
  options.speculation = {5, 4, 1};
  LLMEngine guessing(model, any_tokenizer(), options, runtime);
  LLMEngine plain(model, any_tokenizer(), cold, runtime);
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < 40; ++i) prompt.push_back(3 + i % 5);
  for (int turn = 0; turn < 3; ++turn) {
    const CachedAnswer answer = ask(guessing, prompt, penalised(40));
    EXPECT_EQ(answer, ask(plain, prompt, penalised(40))) << "turn " << turn;
    EXPECT_EQ(answer.cached > 0, turn > 0);
    prompt.insert(prompt.end(), answer.tokens.begin(), answer.tokens.end());
    prompt.push_back(4);
  }
  EXPECT_GT(guessing.guesses().checked, guessing.guesses().right);
}

TEST(PrefixCache, SaltsNeverShare) {
  auto model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), cached_engine(*model.store->device(), true), runtime);
  const std::int64_t block = engine.cache().block_size();
  const auto prompt = prompt_of(5, static_cast<std::int32_t>(3 * block));
  EXPECT_EQ(ask(engine, prompt, greedy(3), {.cache_salt = "one"}).cached, 0);
  EXPECT_EQ(ask(engine, prompt, greedy(3), {.cache_salt = "two"}).cached, 0);
  EXPECT_EQ(ask(engine, prompt, greedy(3)).cached, 0);
  EXPECT_EQ(ask(engine, prompt, greedy(3), {.cache_salt = "two"}).cached, 2 * block);
  EXPECT_EQ(ask(engine, prompt, greedy(3), {.cache_salt = "two", .skip_reading_prefix_cache = true}).cached, 0);
}

// Requests that share prefixes, in few blocks: who is thrown out, and who shares, answers as if alone.
TEST(PrefixCache, PreemptedIsNotInAFullCache) {
  auto model = tiny_model();
  const auto options_of = [&](bool caches, std::int64_t blocks) {
    EngineOptions options = cached_engine(*model.store->device(), caches);
    options.max_model_len = 128;
    options.max_num_batched_tokens = 24;
    const std::int64_t block = model.store->device()->info().preferred_kv_block;
    const auto tables = static_cast<std::uint64_t>(5 * 4 * 128 / block);
    if (blocks > 0) options.kv_cache_memory = tables + static_cast<std::uint64_t>((blocks + 1) * block * (512 + 4));
    return options;
  };
  const auto answer_all = [&](const EngineOptions& options, std::int64_t& preemptions, std::int64_t& hits) {
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    std::vector<SequenceId> ids;
    for (std::int32_t i = 0; i < 12; ++i) {
      auto prompt = prompt_of(5, 8 + 5 * i);
      prompt.push_back(40 + i);
      const RequestOptions request{.cache_salt = i % 4 == 3 ? "other" : "", .priority = i % 3};
      ids.push_back(engine.add_request(prompt, i % 2 == 0 ? greedy(50) : penalised(40), {}, request).value());
    }
    auto answers = answers_of(engine);
    std::vector<CachedAnswer> out;
    for (const SequenceId id : ids) out.push_back(answers.at(id));
    preemptions = engine.num_preemptions();
    hits = engine.cache_statistics().hit_tokens;
    EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
    return out;
  };
  std::int64_t preemptions = 0, hits = 0;
  const auto alone = answer_all(options_of(false, 0), preemptions, hits);
  EXPECT_EQ(preemptions, 0);
  const auto crowded = answer_all(options_of(true, 9), preemptions, hits);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(hits, 0);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(crowded[i], alone[i]) << "request " << i;
}

// The lowest number first, whatever came before it.
TEST(PrefixCache, PriorityOrdersThoseWhoWait) {
  auto model = tiny_model();
  session::Runtime runtime;
  EngineOptions options = small_engine();
  options.max_num_seqs = 1;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  std::vector<SequenceId> ids;
  for (const std::int64_t priority : {5, 5, -1, 0}) {
    ids.push_back(engine.add_request(prompt_of(1, 5), greedy(3), {}, {.priority = priority}).value());
  }
  std::vector<SequenceId> ended;
  while (!engine.idle()) {
    for (const RequestOutput& output : engine.step()) {
      if (output.finished) ended.push_back(output.id);
    }
  }
  EXPECT_EQ(ended, (std::vector<SequenceId>{ids[2], ids[3], ids[0], ids[1]}));
}

}  // namespace
}  // namespace tern::engine
