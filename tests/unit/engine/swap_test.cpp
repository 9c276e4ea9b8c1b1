// If these fail, what was swapped out comes back as something else, comes back to the wrong tenant, or isn't found and
// is computed again.
#include <gtest/gtest.h>

#include <cmath>

#include "base/log.h"
#include "cached_answers.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

BlockHash numbered_hash(int number) {
  BlockHash hash{};
  hash[0] = static_cast<std::byte>(number % 2);
  hash[31] = static_cast<std::byte>(number);
  return hash;
}

std::vector<std::tuple<bool, std::int32_t, std::int32_t>> taken_copies(SwapTier& tier) {
  std::vector<std::tuple<bool, std::int32_t, std::int32_t>> out;
  for (const BlockCopy& one : tier.copies()) out.emplace_back(one.to_device, one.block, one.place);
  tier.copied();
  return out;
}
using Copies = std::vector<std::tuple<bool, std::int32_t, std::int32_t>>;

TEST(SwapTier, TheOneThatWasUsedLongestAgoGoesFirst) {
  SwapTier tier(2, [] { return true; });
  tier.keep(numbered_hash(1), 11);
  tier.keep(numbered_hash(2), 12);
  EXPECT_EQ(taken_copies(tier), (Copies{{false, 11, 0}, {false, 12, 1}}));
  tier.keep(numbered_hash(1), 13);  // is there
  EXPECT_EQ(taken_copies(tier), Copies{});
  tier.keep(numbered_hash(3), 14);
  EXPECT_FALSE(tier.has(numbered_hash(2)));
  EXPECT_TRUE(tier.hold(numbered_hash(1)));
  tier.keep(numbered_hash(4), 15);
  EXPECT_FALSE(tier.has(numbered_hash(3))) << "what is to be fetched went in its place";
  EXPECT_TRUE(tier.hold(numbered_hash(4)));
  tier.keep(numbered_hash(5), 16);
  EXPECT_FALSE(tier.has(numbered_hash(5))) << "every place is held";
  tier.fetch(numbered_hash(1), 21);
  tier.keep(numbered_hash(6), 17);
  EXPECT_FALSE(tier.has(numbered_hash(1)));
  EXPECT_EQ(taken_copies(tier), (Copies{{false, 14, 1}, {false, 15, 1}, {true, 21, 0}, {false, 17, 0}}));
  EXPECT_EQ(tier.num_blocks(), 2);
  tier.forget_all();
  EXPECT_EQ(tier.num_blocks(), 0);
  EXPECT_FALSE(tier.has(numbered_hash(6)));
}

TEST(SwapTier, MakesDoWithThePlacesThatItHasMemoryFor) {
  int places = 0, asked = 0;
  SwapTier tier(100, [&] { return ++asked <= places; });
  tier.keep(numbered_hash(1), 1);
  EXPECT_EQ(tier.num_blocks(), 0);
  places = 100;
  tier.keep(numbered_hash(1), 1);
  EXPECT_EQ(tier.num_blocks(), 0) << "who had no memory is asked again and again";
  SwapTier some(100, [&] { return ++asked <= 5; });
  asked = 3;
  for (int i = 0; i < 9; ++i) some.keep(numbered_hash(i), i + 1);
  EXPECT_EQ(some.num_blocks(), 2);
  EXPECT_TRUE(some.has(numbered_hash(8)) && some.has(numbered_hash(7)));
}

// What one request got.
struct Got {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::int64_t cached = 0;
  friend bool operator==(const Got& a, const Got& b) { return a.tokens == b.tokens && a.logprobs == b.logprobs; }
};
std::map<SequenceId, Got> all_got(LLMEngine& engine) {
  std::map<SequenceId, Got> answers;
  while (!engine.idle()) {
    for (const RequestOutput& output : engine.step()) {
      Got& got = answers[output.id];
      got.tokens.push_back(output.token);
      got.logprobs.push_back(output.logprob);
      got.cached = output.cached_tokens;
    }
  }
  return answers;
}
Got get(LLMEngine& engine, const std::vector<std::int32_t>& prompt, const SamplingParams& params,
        const RequestOptions& request = {}) {
  const SequenceId id = engine.add_request(prompt, params, {}, request).value();
  return all_got(engine).at(id);
}

// The device holds one sequence of `blocks` blocks; whoever comes next takes the place of who came before.
EngineOptions crowded_engine(const models::LoadedModel& model, std::int64_t blocks, std::uint64_t swap_space) {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.max_model_len = blocks * model.store->device()->info().preferred_kv_block;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT;
  options.enable_prefix_caching = true;
  options.swap.bytes = swap_space;
  return options;
}

constexpr std::uint64_t kRoomy = 64U << 20;

SamplingParams with_penalties(std::int64_t tokens) {
  SamplingParams params = greedy(tokens);
  params.repetition_penalty = 1.4F;
  params.presence_penalty = 0.3F;
  params.frequency_penalty = 0.5F;
  return params;
}

// To the bit, and with the count of tokens that come back instead of being computed.
void expect_swapped_is_not(models::LoadedModel& model, const std::vector<SamplingParams>& requests, int texts,
                           tern_dtype cache_dtype = TERN_F32) {
  session::Runtime runtime;
  if (model.store->device()->name() != "cpu:0") runtime.host = tiny_model().store->device();
  const std::int64_t full = model.store->device()->info().preferred_kv_block > 100 ? 3 : 4;  // blocks of a prompt
  EngineOptions options = crowded_engine(model, full + 1, 0);
  options.cache_dtype = cache_dtype;
  options = tight_engine(model, options);
  LLMEngine cold(model, any_tokenizer(), options, runtime);
  options.swap.bytes = kRoomy;
  LLMEngine warm(model, any_tokenizer(), options, runtime);
  ASSERT_NE(warm.swap_space(), nullptr);
  ASSERT_EQ(warm.cache().num_blocks(), full + 1);
  const std::int64_t block = warm.cache().block_size();
  const auto length = static_cast<std::int32_t>(full * block + 3);
  std::int64_t hits = 0, asked = 0;
  for (const SamplingParams& params : requests) {
    for (int turn = 0; turn < 2; ++turn) {
      for (std::int32_t text = 0; text < texts; ++text) {
        const auto prompt = prompt_of(40 * text, length);
        const std::int64_t before = warm.num_computed_tokens();
        const Got swapped = get(warm, prompt, params);
        const Got computed = get(cold, prompt, params);
        EXPECT_EQ(swapped, computed) << "turn " << turn << ", text " << text;
        EXPECT_EQ(swapped.cached, asked++ < texts ? 0 : full * block) << "turn " << turn << ", text " << text;
        EXPECT_EQ(warm.num_computed_tokens() - before, length - swapped.cached + params.max_new_tokens - 1);
        EXPECT_EQ(computed.cached, 0) << "the device holds more than one text: nothing would be swapped";
        hits += swapped.cached;
      }
    }
  }
  const CacheStatistics statistics = warm.cache_statistics();
  EXPECT_EQ(statistics.used_blocks, 0);
  EXPECT_EQ(statistics.hit_tokens, 0);
  EXPECT_EQ(statistics.swap_hit_tokens, hits);
  EXPECT_EQ(statistics.swap_query_tokens, asked * length);
  EXPECT_EQ(statistics.swapped_blocks, full * texts);
  EXPECT_EQ(cold.cache_statistics().swap_query_tokens, 0);
}

TEST(Swap, SwappedIsNot) {
  for (const char* name : {"llama-tied", "gemma2-tied", "deepseek-v3-untied", "gemma4-tied"}) {
    SCOPED_TRACE(name);
    auto model = tiny_model(name);
    expect_swapped_is_not(model, {greedy(8), with_penalties(8)}, 3);
  }
}

// A block has the scales of its keys and values, and its elements may be of two bytes.
TEST(Swap, SwappedIsNotInFewBits) {
  auto model = tiny_model("gemma2-tied");
  for (const tern_dtype dtype : {TERN_BF16, TERN_I8, TERN_F8_E4M3}) {
    SCOPED_TRACE(dtype);
    expect_swapped_is_not(model, {greedy(8)}, 2, dtype);
  }
}

TEST(Swap, SwappedIsNotOnEveryPersonality) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const test::SimEnvironment environment(test::Environment{{"TERN_SIM", personality}});
    auto model = tiny_model_on(accel::Device::open(test::load_plugin("sim"), 0).value());
    expect_swapped_is_not(model, {with_penalties(5)}, 2);
  }
}

// Many at once in few blocks: who gave its blocks up finds them again.
TEST(Swap, ThrownOutIsNot) {
  auto model = tiny_model();
  const auto answer_all = [&](std::uint64_t swap_space, std::int64_t& computed, std::int64_t& preemptions) {
    session::Runtime runtime;
    EngineOptions options = tight_engine(model, crowded_engine(model, 8, swap_space));
    options.max_num_batched_tokens = 24;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    std::vector<SequenceId> ids;
    for (std::int32_t i = 0; i < 12; ++i) {
      auto prompt = prompt_of(5, 8 + 5 * i);
      prompt.push_back(40 + i);
      const RequestOptions request{.cache_salt = i % 4 == 3 ? "other" : "", .priority = i % 3};
      ids.push_back(engine.add_request(prompt, i % 2 == 0 ? greedy(50) : with_penalties(40), {}, request).value());
    }
    auto answers = all_got(engine);
    std::vector<Got> out;
    for (const SequenceId id : ids) out.push_back(answers.at(id));
    preemptions = engine.num_preemptions();
    computed = engine.num_computed_tokens();
    EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
    return out;
  };
  std::int64_t computed = 0, computed_anew = 0, preemptions = 0;
  const auto plain = answer_all(0, computed_anew, preemptions);
  EXPECT_GT(preemptions, 0);
  const auto swapped = answer_all(kRoomy, computed, preemptions);
  EXPECT_GT(preemptions, 0);
  EXPECT_LT(computed, computed_anew);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(swapped[i], plain[i]) << "request " << i;
}

TEST(Swap, SaltsNeverShareAndAResetForgets) {
  auto model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), tight_engine(model, crowded_engine(model, 6, kRoomy)), runtime);
  const std::int64_t block = engine.cache().block_size();
  const auto prompt = prompt_of(5, static_cast<std::int32_t>(4 * block + 1));
  const auto crowd_out = [&] { (void)get(engine, prompt_of(77, static_cast<std::int32_t>(5 * block)), greedy(3)); };
  EXPECT_EQ(get(engine, prompt, greedy(3), {.cache_salt = "one"}).cached, 0);
  crowd_out();
  EXPECT_EQ(get(engine, prompt, greedy(3), {.cache_salt = "two"}).cached, 0);
  crowd_out();
  EXPECT_EQ(get(engine, prompt, greedy(3)).cached, 0);
  crowd_out();
  EXPECT_EQ(get(engine, prompt, greedy(3), {.cache_salt = "two"}).cached, 4 * block);
  crowd_out();
  EXPECT_EQ(get(engine, prompt, greedy(3), {.cache_salt = "two", .skip_reading_prefix_cache = true}).cached, 0);
  engine.reset_prefix_cache();
  EXPECT_EQ(engine.cache_statistics().swapped_blocks, 0);
  EXPECT_EQ(get(engine, prompt, greedy(3), {.cache_salt = "two"}).cached, 0);
}

// Numbers that were not finite would fail everybody after.
TEST(Swap, NobodyFindsTheBlocksOfAFailedSequence) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::failed}) {
    BlockPool pool(5, 4);
    SwapTier tier(100, [] { return true; });
    Scheduler scheduler({4, 8}, pool, &tier);
    const auto run = [&](SequenceId id, std::int32_t first, FinishReason finish) {
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->tokens = prompt_of(first, 18);
      sequence->prompt_length = 18;
      sequence->hashes = PrefixHashes(prefix_root("", ""), {}, 0);
      Sequence& running = *sequence;
      scheduler.add(std::move(sequence));
      std::int64_t begin = -1;
      while (running.computed < 18) {
        for (const ScheduledSequence& part : scheduler.schedule()) {
          if (begin < 0) begin = part.begin;
          part.sequence->computed = part.begin + part.count;
        }
        tier.copied();
      }
      running.finish = finish;
      (void)scheduler.collect_finished();
      return begin;
    };
    EXPECT_EQ(run(0, 1, FinishReason::stop), 0);
    EXPECT_EQ(run(1, 99, FinishReason::stop), 0);  // takes the blocks of the first
    EXPECT_EQ(run(2, 1, reason), 16);
    EXPECT_EQ(run(3, 99, FinishReason::stop), 16);
    EXPECT_EQ(run(4, 1, FinishReason::stop), reason == FinishReason::stop ? 16 : 0);
  }
}

// What was given out between two steps is forgotten too.
TEST(Swap, AResetForgetsWhatIsAboutToBeKept) {
  for (const bool resets : {false, true}) {
    BlockPool pool(4, 4);
    SwapTier tier(100, [] { return true; });
    Scheduler scheduler({4, 8}, pool, &tier);
    std::vector<std::int32_t> blocks, others;
    ASSERT_TRUE(pool.grow(blocks, 16));
    pool.publish(blocks[0], numbered_hash(1));
    pool.release(blocks);
    ASSERT_TRUE(pool.grow(others, 16));
    if (resets) scheduler.reset_prefix_cache();
    (void)scheduler.schedule();
    EXPECT_EQ(tier.has(numbered_hash(1)), !resets);
  }
}

TEST(Swap, SaysWhatItHoldsAndRefusesWhatHoldsNothing) {
  auto model = tiny_model();
  session::Runtime runtime;
  const auto failure = [&](std::uint64_t bytes) {
    return test::failure_of([&] { LLMEngine(model, any_tokenizer(), crowded_engine(model, 6, bytes), runtime); });
  };
  EXPECT_EQ(failure(100), "--swap_space allows 100 B, and a block of 16 tokens takes 8.06 KiB; raise it.");
  EXPECT_NE(failure(std::uint64_t{1} << 50).find("--swap_space asks for 1.00 PiB, and the machine has "),
            std::string::npos);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view line) { said += line; });
  const LLMEngine engine(model, any_tokenizer(), crowded_engine(model, 6, 10 * 8256), runtime);
  auto stateful = tiny_model("qwen3.5-untied");
  const LLMEngine without(stateful, any_tokenizer(), crowded_engine(stateful, 6, kRoomy), runtime);
  set_log_sink({});
  EXPECT_NE(said.find("hold the keys and values of 160 tokens"), std::string::npos) << said;
  EXPECT_NE(said.find("nothing to keep in --swap_space for "), std::string::npos) << said;
  EXPECT_EQ(without.swap_space(), nullptr);
}

}  // namespace
}  // namespace tern::engine
