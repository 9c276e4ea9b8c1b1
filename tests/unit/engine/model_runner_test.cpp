// If these fail, a step reads keys or earlier tokens of another sequence, or of one that sat there before.
#include "engine/model_runner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/sim/extension.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

// What the sampler must draw greedily: penalties over all that the sequence holds.
std::int32_t best_of(std::span<const float> logits, const Sequence& sequence, std::int64_t length) {
  const SamplingParams& p = sequence.params;
  std::map<std::int32_t, int> generated;
  for (std::int64_t t = 0; t < length; ++t) {
    generated[sequence.tokens[static_cast<std::size_t>(t)]] += t >= sequence.prompt_length ? 1 : 0;
  }
  std::int32_t best = -1;
  float most = -INFINITY;
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(logits.size()); ++v) {
    float z = logits[static_cast<std::size_t>(v)];
    if (const auto found = generated.find(v); found != generated.end()) {
      z = z > 0.0F ? z / p.repetition_penalty : z * p.repetition_penalty;
      z -= p.frequency_penalty * static_cast<float>(found->second) + (found->second > 0 ? p.presence_penalty : 0.0F);
    }
    if (z <= most) continue;
    most = z;
    best = v;
  }
  return best;
}

struct Outcome {
  std::map<SequenceId, std::vector<std::int32_t>> answers;
  std::int64_t preemptions = 0;
  std::int64_t penalised = 0;  // rows that were drawn under penalties
  std::int64_t prepared = 0;   // steps that came as they were prepared
  std::int64_t programs = 0;   // that were kept at the end
};

// Ten requests through few blocks and few seats, some with penalties, each step beside what the host makes of its
// logits.
Outcome run_requests(models::LoadedModel& model, std::int64_t blocks, bool prepares,
                     std::int64_t max_programs = RunnerOptions{}.max_programs) {
  session::Runtime runtime;
  CacheOptions cache_options;
  cache_options.max_model_len = 128;
  cache_options.max_num_seqs = 4;
  CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  RunnerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 24;
  options.return_logits = true;
  options.max_programs = max_programs;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT;
  ModelRunner runner(model, cache, options, runtime);
  BlockPool pool(blocks, cache.block_size());
  Scheduler scheduler({options.max_num_seqs, options.max_num_batched_tokens}, pool);
  for (std::int32_t id = 0; id < 10; ++id) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = id;
    sequence->tokens = prompt_of(id, 5 + 6 * id);
    sequence->prompt_length = sequence->length();
    sequence->params = greedy(30 - id);
    if (id % 3 != 0) {
      sequence->params.repetition_penalty = 1.3F;
      sequence->params.presence_penalty = 0.2F * static_cast<float>(id);
      sequence->params.frequency_penalty = 0.5F;
    }
    scheduler.add(std::move(sequence));
  }
  Outcome run;
  while (!scheduler.idle()) {
    const Batch& batch = scheduler.schedule();
    run.prepared += scheduler.was_prepared() ? 1 : 0;
    runner.launch(batch, scheduler.was_prepared());
    const Batch* next = prepares ? scheduler.prepare() : nullptr;
    if (next != nullptr) runner.prepare(*next);
    const auto& drawn = runner.wait();
    std::size_t row = 0;
    for (const auto& part : batch) {
      Sequence& sequence = *part.sequence;
      sequence.computed = part.begin + part.count;
      if (!part.samples) continue;
      const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
      const std::int32_t want = best_of(runner.logits().subspan(row * vocab, vocab), sequence, sequence.length());
      EXPECT_EQ(drawn.at(row++).id, want) << "request " << sequence.id << ", token " << sequence.length();
      run.penalised += has_penalties(sequence.params) ? 1 : 0;
      sequence.tokens.push_back(want);
      if (sequence.generated() >= sequence.params.max_new_tokens) sequence.finish = FinishReason::length;
    }
    for (const auto& done : scheduler.collect_finished()) {
      run.answers[done->id].assign(done->tokens.begin() + done->prompt_length, done->tokens.end());
    }
  }
  run.preemptions = scheduler.num_preemptions();
  run.programs = static_cast<std::int64_t>(runner.buckets().size());
  return run;
}

TEST(ModelRunner, ReadsEachSequencesOwnTokensWhateverSatThereBefore) {
  for (const char* name :
       {"mistral", "qwen3.5-untied", "granite-h-tied", "falcon-h1-untied",
        "deepseek-v3-untied",      // three keep states at their seats, one of them beside keys, this one vectors
        "deepseek-v32-untied"}) {  // and this one keys of an indexer beside them
    SCOPED_TRACE(name);
    auto model = tiny_model(name);
    const Outcome roomy = run_requests(model, 32, false);
    const Outcome tight = run_requests(model, 7, false);
    EXPECT_EQ(roomy.preemptions, 0);
    EXPECT_GT(tight.preemptions, 0);
    EXPECT_GT(tight.penalised, 50);
    EXPECT_EQ(roomy.answers.size(), 10U);
    EXPECT_EQ(tight.answers, roomy.answers);
  }
}

TEST(ModelRunner, StepsThatWerePreparedDrawTheSame) {
  for (const char* name : {"mistral", "qwen3.5-untied", "granite-h-tied", "deepseek-v3-untied"}) {
    auto model = tiny_model(name);
    for (const std::int64_t blocks : {32, 7}) {
      const Outcome plain = run_requests(model, blocks, false);
      const Outcome prepared = run_requests(model, blocks, true);
      EXPECT_EQ(prepared.answers, plain.answers);
      EXPECT_EQ(prepared.preemptions, plain.preemptions);
      EXPECT_EQ(plain.prepared, 0);
      EXPECT_GT(prepared.prepared, 20);
    }
  }
}

TEST(ModelRunner, KeepsFewProgramsAndDrawsTheSame) {
  auto model = tiny_model();
  const Outcome all = run_requests(model, 7, true);
  const Outcome few = run_requests(model, 7, true, 2);
  EXPECT_GT(all.programs, 6);
  EXPECT_EQ(few.programs, 2);
  EXPECT_EQ(few.answers, all.answers);
  EXPECT_GT(few.prepared, 0);
}

// What a step copies to the device and back is the same however long sequences may become, with penalties too.
TEST(ModelRunner, HandsOverNoMoreWhereSequencesMayBeLonger) {
  auto model = tiny_model();
  std::vector<std::uint64_t> staging;
  for (const std::int64_t longest : {64, 100000}) {
    session::Runtime runtime;
    CacheOptions cache_options;
    cache_options.max_model_len = longest;
    CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
    ModelRunner runner(model, cache, {}, runtime);
    Sequence sequence;
    sequence.tokens = prompt_of(1, 2);
    sequence.prompt_length = 2;
    sequence.seat = 1;
    sequence.params.presence_penalty = 0.5F;
    ASSERT_TRUE(cache.pool().grow(sequence.blocks, 8));
    (void)runner.run({{&sequence, 0, 2, true}});
    staging.push_back(runner.program().memory().staging);
  }
  EXPECT_EQ(staging[0], staging[1]);
}

// Penalties of one request must not make others slower: programs without them take no history.
TEST(ModelRunner, ReadsNoHistoryWhereNobodyAsksForPenalties) {
  auto model = tiny_model();
  session::Runtime runtime;
  CacheOptions cache_options;
  cache_options.max_model_len = 64;
  CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  ModelRunner runner(model, cache, {}, runtime);
  Sequence sequence;
  sequence.tokens = prompt_of(1, 2);
  sequence.prompt_length = 2;
  sequence.seat = 1;
  ASSERT_TRUE(cache.pool().grow(sequence.blocks, 8));
  (void)runner.run({{&sequence, 0, 2, true}});
  sequence.params.presence_penalty = 0.5F;
  (void)runner.run({{&sequence, 1, 1, false}});
  (void)runner.run({{&sequence, 1, 1, true}});
  std::vector<bool> penalties;
  for (const ModelRunner::Bucket& bucket : runner.buckets()) penalties.push_back(bucket.sampling.penalties);
  EXPECT_EQ(penalties, (std::vector<bool>{false, true, false, true}));
}

// What the largest step needs is there from the start, so no smaller one ends the run for want of memory.
TEST(ModelRunner, ASizeThatLacksMemoryIsComputedByALargerProgram) {
  const auto answers = [](const char* fault) {
    auto model = tiny_model_on(test::open_sim());
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), small_engine(), runtime);
    const auto* faults = model.store->device()->backend().extension<tern_sim_faults>("sim.faults");
    EXPECT_EQ(faults->arm(model.store->device()->raw(), fault), TERN_OK);
    Drawn drawn;
    for (std::int32_t i = 0; i < 3; ++i) (void)engine.add_request(prompt_of(i, 3 + i), greedy(5)).value();
    drawn.run(engine);
    return drawn.tokens;
  };
  const auto expected = answers("");
  EXPECT_EQ(expected.size(), 3U);
  EXPECT_EQ(answers("host@1,host@3"), expected);
}

}  // namespace
}  // namespace tern::engine
