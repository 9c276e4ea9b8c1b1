// If these fail, requests disturb one another, or answers depend on what they must not.
#include "engine/llm_engine.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/strings.h"
#include "tiny.h"

namespace tern::engine {
namespace {

std::vector<std::int32_t> answer_alone(models::LoadedModel& model, const EngineOptions& options,
                                       const std::vector<std::int32_t>& prompt, const SamplingParams& params) {
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  const SequenceId id = engine.add_request(prompt, params).value();
  Drawn drawn;
  drawn.run(engine);
  return drawn.tokens.at(id);
}

// Rollout beside evaluation, a draft beside its target: step by step in turn, each answers as if alone.
TEST(LLMEngine, TwoOverOneModelDoNotDisturbEachOther) {
  auto model = tiny_model();
  const auto one = prompt_of(1, 20);
  const auto two = prompt_of(50, 9);
  EngineOptions other = small_engine();
  other.max_model_len = 96;
  const auto alone_one = answer_alone(model, small_engine(), one, greedy(12));
  const auto alone_two = answer_alone(model, other, two, greedy(12));
  session::Runtime runtime;
  LLMEngine first(model, any_tokenizer(), small_engine(), runtime);
  const SequenceId a = first.add_request(one, greedy(12)).value();
  Drawn from_first;
  for (int i = 0; i < 3; ++i) from_first.step(first);  // its cache holds the prompt before the other is made
  {
    LLMEngine second(model, any_tokenizer(), other, runtime);
    const SequenceId b = second.add_request(two, greedy(12)).value();
    Drawn from_second;
    for (int i = 0; i < 4; ++i) {
      from_first.step(first);
      from_second.step(second);
    }
    from_second.run(second);
    EXPECT_EQ(from_second.tokens.at(b), alone_two);
  }
  from_first.run(first);  // the other's end takes nothing away
  EXPECT_EQ(from_first.tokens.at(a), alone_one);
}

TEST(LLMEngine, TakesItsCacheAlongWhenItGoes) {
  auto model = tiny_model();
  (void)answer_alone(model, small_engine(), prompt_of(1, 3), greedy(1));  // packs weights, which stay
  const std::uint64_t before = model.store->bytes();
  for (int i = 0; i < 3; ++i) {
    session::Runtime runtime;
    const LLMEngine engine(model, any_tokenizer(), small_engine(), runtime);
    EXPECT_GE(model.store->bytes(), before + engine.cache().bytes());
  }
  EXPECT_EQ(model.store->bytes(), before);
}

// Abort reaches a request that waits, one whose prompt is computed in parts and one that decodes, before the next step
// computes anything; its blocks are free for the others, who notice nothing.
TEST(LLMEngine, AbortEndsARequestAtTheNextStepWhateverItDoes) {
  auto model = tiny_model();
  EngineOptions options = small_engine();
  options.max_num_seqs = 3;
  options.max_num_batched_tokens = 8;
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  const SequenceId stays = engine.add_request(prompt_of(1, 4), greedy(20)).value();
  const SequenceId decodes = engine.add_request(prompt_of(2, 4), greedy(20)).value();
  Drawn drawn;
  drawn.step(engine);
  const SequenceId prefills = engine.add_request(prompt_of(3, 40), greedy(5)).value();
  const SequenceId waits = engine.add_request(prompt_of(4, 5), greedy(5)).value();
  drawn.step(engine);
  ASSERT_FALSE(drawn.last.contains(prefills)) << "its prompt is not done yet";
  const std::size_t before = drawn.tokens.at(decodes).size();
  for (const SequenceId id : {decodes, prefills, waits}) engine.abort(id);
  engine.abort(12345);  // nobody's
  drawn.step(engine);
  for (const SequenceId id : {decodes, prefills, waits}) {
    EXPECT_TRUE(drawn.last.at(id).finished) << id;
    EXPECT_EQ(drawn.last.at(id).reason, FinishReason::aborted) << id;
  }
  EXPECT_EQ(drawn.tokens.at(decodes).size(), before) << "a token was drawn after the abort";
  EXPECT_EQ(drawn.last.at(waits).generated_tokens, 0);
  drawn.run(engine);
  EXPECT_EQ(drawn.tokens.at(stays), answer_alone(model, options, prompt_of(1, 4), greedy(20)));
}

// Steps that take longer than answers are to wait for a token compute less of prompts, and the same comes of it.
TEST(LLMEngine, APromptComesInSmallPartsBesideAnAnswerThatIsToWaitForNothing) {
  auto model = tiny_model();
  const auto parts_of = [&](double target) {
    EngineOptions options = small_engine();
    options.max_num_batched_tokens = 32;
    options.target_inter_token_latency = target;
    options.max_model_len = 96;
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    (void)engine.add_request(prompt_of(1, 4), greedy(20)).value();
    Drawn drawn;
    drawn.step(engine);
    const SequenceId comes = engine.add_request(prompt_of(3, 90), greedy(3)).value();
    int steps = 0;
    while (!drawn.last.contains(comes)) {
      drawn.step(engine);
      ++steps;
    }
    drawn.run(engine);
    EXPECT_EQ(drawn.tokens.at(comes), answer_alone(model, options, prompt_of(3, 90), greedy(3)));
    return steps;
  };
  EXPECT_EQ(parts_of(0), 3);
  EXPECT_EQ(parts_of(1e9), 3);
  EXPECT_EQ(parts_of(1e-9), 4) << "31 tokens, as many that were prepared meanwhile, and then 16 at a time";
}

// Each request's draws are its own: by seed, request, sample and position.
TEST(LLMEngine, EqualPromptsDrawAnswersOfTheirOwnWhateverRunsBeside) {
  auto model = tiny_model();
  const auto ask = [&](std::int64_t seats) {
    EngineOptions options = small_engine();
    options.max_num_seqs = seats;
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    SamplingParams params = greedy(12);
    params.temperature = 1.0F;
    std::vector<SequenceId> ids;
    for (std::uint64_t request = 0; request < 3; ++request) {
      for (std::uint64_t sample = 0; sample < 2; ++sample) {
        params.request = request;
        params.sample = sample;
        ids.push_back(engine.add_request(prompt_of(5, 9), params).value());
      }
    }
    Drawn drawn;
    drawn.run(engine);
    std::vector<std::vector<std::int32_t>> answers;
    for (const SequenceId id : ids) answers.push_back(drawn.tokens.at(id));
    return answers;
  };
  const auto together = ask(4);
  EXPECT_EQ(ask(1), together);
  EXPECT_EQ(ask(4), together);
  EXPECT_EQ(std::set(together.begin(), together.end()).size(), together.size());
}

// Writes `value` over the first number of row `row` of a [rows, hidden_size] weight.
void spoil(models::LoadedModel& model, const std::string& name, std::int32_t row, float value) {
  const TensorDesc desc = make_desc(TERN_F32, shape_of(model.store->at(name).desc));
  std::vector<float> numbers(static_cast<std::size_t>(num_elements(desc)));
  model.store->download(name, std::as_writable_bytes(std::span(numbers)));
  numbers.at(static_cast<std::size_t>(row * desc.shape[1])) = value;
  model.store->erase(name);  // the file's pages are not ours to write
  model.store->create(name, desc);
  model.store->upload(name, std::as_bytes(std::span(numbers)));
}

// One bad embedding row: who meets it ends with an error, the others go on as if alone.
TEST(LLMEngine, LogitsThatAreNotFiniteEndTheirRequestAlone) {
  auto model = tiny_model("llama-untied");
  const auto good = prompt_of(1, 20);
  const auto want = answer_alone(model, small_engine(), good, greedy(8));
  constexpr std::int32_t kBroken = 2;  // in no other prompt
  spoil(model, "model.embed_tokens.weight", kBroken, std::numeric_limits<float>::quiet_NaN());
  auto bad = prompt_of(4, 11);
  bad[6] = kBroken;
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), small_engine(), runtime);
  const SequenceId sound = engine.add_request(good, greedy(8)).value();
  const SequenceId spoiled = engine.add_request(bad, greedy(8)).value();
  Drawn drawn;
  drawn.run(engine);
  EXPECT_EQ(drawn.tokens.at(sound), want);
  EXPECT_FALSE(drawn.tokens.contains(spoiled));
  const RequestOutput& last = drawn.last.at(spoiled);
  ASSERT_TRUE(last.error);
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.reason, FinishReason::failed);
  EXPECT_EQ(
      last.error->line(),
      "request 1, token 11: a logit is NaN; try --torch_dtype float32; if that fails too, the weights or the adapter "
      "are damaged.");
}

// One logit of thousands, and not the one that is drawn.
TEST(LLMEngine, OneLogitThatIsNotFiniteIsEnough) {
  for (const auto& [value, found] : {std::pair{std::numeric_limits<float>::quiet_NaN(), "NaN"},
                                     {std::numeric_limits<float>::infinity(), "an infinity"}}) {
    auto model = tiny_model("llama-untied");
    spoil(model, "lm_head.weight", 7, value);
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), small_engine(), runtime);
    const SequenceId id = engine.add_request(prompt_of(1, 5), greedy(8)).value();
    Drawn drawn;
    drawn.run(engine);
    EXPECT_FALSE(drawn.tokens.contains(id));
    ASSERT_TRUE(drawn.last.at(id).error);
    EXPECT_TRUE(drawn.last.at(id).error->problem.ends_with(cat("a logit is ", found)));
  }
}

}  // namespace
}  // namespace tern::engine
