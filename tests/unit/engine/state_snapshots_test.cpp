// If these fail, a model whose layers keep states answers differently where its prompt was known, or never finds it.
#include <gtest/gtest.h>

#include "base/log.h"
#include "cached_answers.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::engine {
namespace {

// Layers that keep states: copies of these lie where a prompt ended, and where two of them parted.
// `to_the_bit`: the device keeps states within a step as it does from one to the next.
void expect_states_are_found(models::LoadedModel& model, bool to_the_bit) {
  session::Runtime runtime;
  LLMEngine cold(model, any_tokenizer(), cached_engine(*model.store->device(), false), runtime);
  LLMEngine warm(model, any_tokenizer(), cached_engine(*model.store->device(), true), runtime);
  ASSERT_TRUE(warm.caches_prefixes());
  const std::int64_t block = warm.cache().block_size();
  const auto cached = [&](const std::vector<std::int32_t>& prompt, const SamplingParams& params) {
    const CachedAnswer answer = ask(warm, prompt, params);
    const CachedAnswer expected = ask(cold, prompt, params);
    EXPECT_EQ(answer.tokens, expected.tokens);
    for (std::size_t i = 0; i < expected.logprobs.size(); ++i) {
      EXPECT_NEAR(answer.logprobs[i], expected.logprobs[i], to_the_bit ? 0 : 1e-5F);
    }
    return answer.cached / block;
  };
  for (const SamplingParams& params : {greedy(24), penalised(24)}) {
    const auto prompt = prompt_of(5, static_cast<std::int32_t>(2 * block + 9));
    EXPECT_EQ(cached(prompt, params), 0);
    // Another sits where the first one sat, and a longer prompt begins where it ended.
    (void)warm.add_request(prompt_of(90, 5), greedy(30)).value();
    auto longer = prompt;
    for (int i = 0; i < 7; ++i) longer.push_back(11 + i);
    EXPECT_EQ(cached(longer, params), 2);
    // One that parts from it before has its keys, and no states: they are kept then, and found by the next.
    auto other = prompt;
    other.resize(static_cast<std::size_t>(block + 3));
    other.push_back(40);
    EXPECT_EQ(cached(other, params), 0);
    other.back() = 41;
    EXPECT_EQ(cached(other, params), 1);
    warm.reset_prefix_cache();
    EXPECT_EQ(cached(prompt, params), 0);
    warm.reset_prefix_cache();
  }
  EXPECT_EQ(warm.cache_statistics().used_blocks, 0);
}

TEST(PrefixCache, CachedIsColdWhereLayersKeepStates) {
  for (const char* name :
       {"qwen3.5-untied", "lfm2-tied", "granite-h-untied", "falcon-h1-untied", "qwen3-next-untied"}) {
    SCOPED_TRACE(name);
    auto model = tiny_model(name);
    expect_states_are_found(model, true);
  }
}

// The simulated device's ops are in fp64, and its states are not: where a step ends they're rounded.
TEST(PrefixCache, CachedIsColdWhereLayersKeepStatesOnEveryPersonality) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const test::SimEnvironment environment(test::Environment{{"TERN_SIM", personality}});
    auto model = tiny_model_on(accel::Device::open(test::load_plugin("sim"), 0).value(), "qwen3.5-untied");
    expect_states_are_found(model, false);
  }
}

// Few seats and few blocks: who is thrown out, who finds states and who keeps them answers as if alone.
TEST(PrefixCache, StatesAreNobodyElses) {
  auto model = tiny_model("qwen3.5-untied");
  const auto answers = [&](bool caches, std::int64_t seats, int forgets, std::int64_t& hits) {
    session::Runtime runtime;
    EngineOptions options = cached_engine(*model.store->device(), caches);
    options.max_num_seqs = seats;
    options.max_num_batched_tokens = 24;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    const auto block = static_cast<std::int32_t>(engine.cache().block_size());
    int steps = 0;
    std::vector<SequenceId> ids;
    for (std::int32_t i = 0; i < 24; ++i) {
      auto prompt = prompt_of(5 + 40 * (i % 2), block + i);
      prompt.push_back(40 + i % 3);
      const RequestOptions request{.cache_salt = i % 5 == 4 ? "other" : "", .priority = i % 3};
      ids.push_back(engine.add_request(prompt, i % 2 == 0 ? greedy(20) : penalised(9), {}, request).value());
    }
    std::map<SequenceId, CachedAnswer> all;
    for (; !engine.idle(); ++steps) {
      if (forgets > 0 && steps % forgets == forgets - 1) engine.forget_computed();
      for (const RequestOutput& output : engine.step()) {
        all[output.id].tokens.push_back(output.token);
        all[output.id].logprobs.push_back(output.logprob);
      }
    }
    hits = engine.cache_statistics().hit_tokens;
    EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
    std::vector<CachedAnswer> out;
    for (const SequenceId id : ids) out.push_back(all.at(id));
    return out;
  };
  std::int64_t hits = 0;
  const auto alone = answers(false, 1, 0, hits);
  for (const auto& [seats, forgets] : {std::pair(1, 0), std::pair(3, 0), std::pair(4, 0), std::pair(3, 9)}) {
    EXPECT_EQ(answers(true, seats, forgets, hits), alone) << seats << " seats";
    EXPECT_GT(hits, 0);
  }
}

// Where memory holds no copy, the model does without, and says so.
TEST(PrefixCache, StatesThatHaveNoRoomAreComputed) {
  auto model = tiny_model("qwen3.5-untied");
  session::Runtime runtime;
  EngineOptions options = cached_engine(*model.store->device(), true);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view line) { said += line; });
  const LLMEngine roomy(model, any_tokenizer(), options, runtime);
  CacheOptions cache = cache_options(options, model);
  EXPECT_GT(cache.state_snapshots, 0);
  cache.state_snapshots = 0;
  options.kv_cache_memory = CacheEngine(model.store, model.architecture->cache_specs(model.config), cache).bytes();
  const std::uint64_t with = roomy.cache().bytes();
  EXPECT_GT(with, options.kv_cache_memory);
  const std::uint64_t copy = (with - options.kv_cache_memory) / static_cast<std::uint64_t>(4 * options.max_num_seqs);
  // What held the sequences before holds them still.
  cache.max_num_seqs = options.max_num_seqs = 1;
  options.kv_cache_memory = CacheEngine(model.store, model.architecture->cache_specs(model.config), cache).bytes();
  const LLMEngine tight(model, any_tokenizer(), options, runtime);
  EXPECT_EQ(tight.max_model_len(), options.max_model_len);
  EXPECT_FALSE(tight.caches_prefixes());
  said.clear();
  options.kv_cache_memory = 8 * copy - 1;
  options.max_model_len = 64;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  set_log_sink({});
  EXPECT_NE(said.find("no prefix cache for "), std::string::npos) << said;
  EXPECT_FALSE(engine.caches_prefixes());
  const auto prompt = prompt_of(5, 60);
  EXPECT_EQ(ask(engine, prompt, greedy(3)), ask(engine, prompt, greedy(3)));
  EXPECT_EQ(engine.cache_statistics().hit_tokens, 0);
}

}  // namespace
}  // namespace tern::engine
