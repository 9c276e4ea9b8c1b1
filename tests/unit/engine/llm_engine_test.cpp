// If these fail, requests disturb one another, or answers depend on what they must not.
#include "engine/llm_engine.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tern::engine
