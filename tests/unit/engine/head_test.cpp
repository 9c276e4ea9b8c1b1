// Decoding and scoring go through their architecture's own head, whatever it is.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/cached_logits.h"
#include "engine/divergence.h"
#include "engine/model_runner.h"
#include "engine/scorer.h"
#include "models/registry.h"
#include "tiny.h"

namespace tern::engine {
namespace {

constexpr float kScale = 0.375F, kCap = 1.25F;

nn::Head capped(const models::ModelConfig& config) {
  nn::Head head = models::tied_or_own_head(config);
  head.scale = kScale;
  head.softcap = kCap;
  return head;
}

struct Step {
  std::vector<float> logits;  // [vocab]
  SampledToken drawn;
};

// Token by token through the paged cache.
std::vector<Step> decode(models::LoadedModel& model, const std::vector<std::int32_t>& ids) {
  session::Runtime runtime;
  CacheOptions cache_options;
  cache_options.max_model_len = static_cast<std::int64_t>(ids.size());
  cache_options.max_num_seqs = 1;
  CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  RunnerOptions options;
  options.return_logits = true;
  ModelRunner runner(model, cache, options, runtime);
  Sequence sequence;
  sequence.tokens = ids;
  sequence.prompt_length = static_cast<std::int64_t>(ids.size());
  sequence.seat = 1;
  for (std::int64_t block = 1; block <= cache.num_blocks(); ++block)
    sequence.blocks.push_back(static_cast<std::int32_t>(block));
  std::vector<Step> out;
  for (std::int64_t t = 0; t < sequence.prompt_length; ++t) {
    const SampledToken drawn = runner.run({{&sequence, t, 1, true}}).at(0);
    out.push_back({{runner.logits().begin(), runner.logits().end()}, drawn});
  }
  return out;
}

// Attention is told from its attributes whether a step only decodes.
TEST(ModelRunner, StepsOfOneTokenASequenceAreDecoding) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  CacheOptions cache_options;
  cache_options.max_model_len = 16;
  cache_options.max_num_seqs = 4;
  CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  RunnerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 16;
  ModelRunner runner(model, cache, options, runtime);
  std::vector<Sequence> sequences(2);
  for (Sequence& sequence : sequences) {
    sequence.tokens = prompt_of(3, 5);
    sequence.prompt_length = 3;
    sequence.seat = static_cast<std::int32_t>(&sequence - sequences.data()) + 1;
    ASSERT_TRUE(cache.pool().grow(sequence.blocks, 5));
  }
  const auto step = [&](std::int64_t begin, std::int64_t first, std::int64_t second) {
    (void)runner.run({{&sequences[0], begin, first, true}, {&sequences[1], begin, second, true}});
  };
  step(0, 1, 3);
  step(3, 1, 1);
  using Bucket = ModelRunner::Bucket;
  EXPECT_EQ(runner.buckets(), (std::vector<Bucket>{{2, 2, 1}, {4, 2, 4}, {16, 4, 16, {true, kMostBiases, true, 0}}}));
}

double logprob(const std::vector<double>& logits, std::int32_t id) {
  double sum = 0.0;
  for (const double z : logits) sum += std::exp(z);
  return logits.at(static_cast<std::size_t>(id)) - std::log(sum);
}

TEST(Head, DecodingAndScoringUseTheArchitecturesOwn) {
  const std::vector<std::int32_t> ids = prompt_of(5, 12);
  models::LoadedModel model = tiny_model();
  const std::vector<Step> plain = decode(model, ids);
  models::Architecture own = *model.architecture;
  own.head = capped;
  model.architecture = &own;
  const std::vector<Step> found = decode(model, ids);
  session::Runtime runtime;
  ScorerOptions scorer;
  scorer.max_tokens = static_cast<std::int64_t>(ids.size());
  const std::vector<double> scores = Scorer(model, scorer, runtime).score(ids);
  ASSERT_EQ(scores.size() + 1, ids.size());
  for (std::size_t t = 0; t < ids.size(); ++t) {
    ASSERT_EQ(found[t].logits.size(), static_cast<std::size_t>(model.config.vocab_size));
    std::vector<double> want;
    for (const float z : plain[t].logits) want.push_back(kCap * std::tanh(kScale * double{z} / kCap));
    for (std::size_t v = 0; v < want.size(); ++v) EXPECT_NEAR(found[t].logits[v], want[v], 1e-5) << t << ", " << v;
    EXPECT_NEAR(found[t].drawn.logprob, logprob(want, found[t].drawn.id), 1e-5) << t;
    if (t == scores.size()) continue;
    EXPECT_NEAR(scores[t], logprob(want, ids[t + 1]), 1e-5) << t;
  }
}

// The weights rounded to bf16 beside themselves, over more rows than a block of logits has: each token's divergence is
// that of the distributions that decoding draws from.
TEST(Head, ComparingUsesTheDistributionsOfDecoding) {
  const std::vector<std::int32_t> ids = prompt_of(5, 40);
  models::LoadedModel model = tiny_model();
  models::LoadedModel twin = tiny_model("llama-tied", TERN_BF16);
  const std::vector<Step> mine = decode(model, ids);
  const std::vector<Step> others = decode(twin, ids);
  session::Runtime runtime;
  ScorerOptions options;
  options.max_tokens = static_cast<std::int64_t>(ids.size());
  PackedLogits logits(model, options, runtime);
  PackedLogits reference(twin, options, runtime);
  const auto found = Comparer(reference, logits, 2).compare(ids, {0, 1, ids.size()});
  ASSERT_EQ(found.size() + 1, ids.size());
  ASSERT_GT(found.size(), NextTokenLogits::kBlock);
  double most = 0;
  for (std::size_t t = 0; t < found.size(); ++t) {
    const std::vector<double> q(mine[t].logits.begin(), mine[t].logits.end());
    const std::vector<double> p(others[t].logits.begin(), others[t].logits.end());
    double kl = 0;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(p.size()); ++v)
      kl += std::exp(logprob(p, v)) * (logprob(p, v) - logprob(q, v));
    EXPECT_NEAR(found[t].kl, kl, 1e-6 + 1e-3 * kl) << t;
    EXPECT_NEAR(found[t].logprob, logprob(q, ids[t + 1]), 1e-5) << t;
    EXPECT_NEAR(found[t].reference, logprob(p, ids[t + 1]), 1e-5) << t;
    EXPECT_EQ(found[t].same_top, others[t].drawn.id == mine[t].drawn.id) << t;
    most = std::max(most, found[t].kl);
  }
  EXPECT_GT(most, 1e-5) << "rounding changes something";
}

// Through a cache in steps of any size: the distributions that decoding draws from, and those of a window that begins
// later in the text. Broken if a step's tokens stood at other places, or the last window's keys were still seen.
TEST(Head, LogitsThroughACacheAreThoseOfDecoding) {
  const std::vector<std::int32_t> ids = prompt_of(5, 40);
  models::LoadedModel model = tiny_model();
  const std::vector<Step> steps = decode(model, ids);
  session::Runtime runtime;
  for (const std::int64_t size : {1, 7, 32}) {
    ScorerOptions options;
    options.max_tokens = static_cast<std::int64_t>(ids.size());
    options.step_tokens = size;
    CachedLogits cached(model, options, runtime);
    PackedLogits packed(model, options, runtime);
    const auto found = token_logprobs(cached, ids, {0, 1, ids.size()});
    ASSERT_EQ(found.size() + 1, ids.size());
    for (std::size_t t = 0; t < found.size(); ++t) {
      const std::vector<double> want(steps[t].logits.begin(), steps[t].logits.end());
      EXPECT_NEAR(found[t], logprob(want, ids[t + 1]), 1e-5) << size << ", " << t;
    }
    const ScoreWindow later{9, 20, 38};
    const auto behind = token_logprobs(cached, ids, later);
    const auto expected = token_logprobs(packed, ids, later);
    ASSERT_EQ(behind.size(), 18U);
    for (std::size_t t = 0; t < behind.size(); ++t) EXPECT_NEAR(behind[t], expected[t], 1e-5) << size << ", " << t;
  }
}

}  // namespace
}  // namespace tern::engine
