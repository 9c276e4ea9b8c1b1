// Guesses change no token: what comes out is what comes without them, drawn or greedy, and wrong ones become few.
#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include "tiny.h"

namespace tern::engine {
namespace {

std::vector<std::int32_t> guesses(const std::vector<std::int32_t>& tokens, const SpeculativeOptions& options,
                                  std::int64_t most) {
  std::vector<std::int32_t> out;
  look_up(tokens, options, most, out);
  return out;
}

TEST(PromptLookup, GoesOnAsTheLatestEqualWordsDid) {
  const SpeculativeOptions options = {.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 2};
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(guesses({1, 2, 3, 9, 8, 7, 1, 2, 3}, options, 4), (Ids{9, 8, 7, 1}));
  EXPECT_EQ(guesses({1, 2, 3, 9, 8, 7, 1, 2, 3}, options, 2), (Ids{9, 8}));
  EXPECT_EQ(guesses({5, 2, 3, 4, 6, 2, 3}, options, 4), (Ids{4, 6, 2, 3})) << "two words where three are not found";
  EXPECT_EQ(guesses({2, 3, 4, 2, 3, 5, 2, 3}, options, 1), (Ids{5})) << "the latest place";
  EXPECT_EQ(guesses({7, 7, 7, 7}, options, 4), (Ids{7})) << "a place may overlap the words";
  EXPECT_EQ(guesses({1, 2, 3, 4}, options, 4), Ids{});
  EXPECT_EQ(guesses({1, 3, 2, 3}, options, 4), Ids{}) << "one word is too few";
  EXPECT_EQ(guesses({1, 2}, options, 4), Ids{});
  EXPECT_EQ(guesses({1, 2, 1, 2}, options, 0), Ids{});
}

struct Result {
  Drawn drawn;
  Guesses guesses;
  std::map<SequenceId, std::vector<float>> logprobs;
  std::int64_t steps = 0;
  std::uint64_t cache_bytes = 0;
};

// Prompts that repeat themselves, so that the answers of a small model do, too.
Result answers(std::int64_t guesses, float temperature, std::uint64_t memory = 0, bool penalties = false) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  EngineOptions options = small_engine();
  options.max_num_batched_tokens = 24;
  options.max_model_len = 140;
  options.numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
  options.speculation = {.num_speculative_tokens = guesses, .prompt_lookup_max = 3, .prompt_lookup_min = 1};
  options.kv_cache_memory = memory;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  for (std::int32_t i = 0; i < 6; ++i) {
    std::vector<std::int32_t> prompt;
    for (int repeat = 0; repeat < 4; ++repeat) {
      const auto words = prompt_of(i, 5);
      prompt.insert(prompt.end(), words.begin(), words.end());
    }
    SamplingParams params = greedy(80 + i);
    params.temperature = temperature;
    params.top_k = 3;
    params.request = static_cast<std::uint64_t>(i);
    if (penalties) params.repetition_penalty = 1.05F;
    EXPECT_TRUE(engine.add_request(std::move(prompt), params).ok());
  }
  Result out;
  while (!engine.idle()) {
    ++out.steps;
    for (auto& output : engine.step()) {
      if (output.token >= 0) {
        out.drawn.tokens[output.id].push_back(output.token);
        out.logprobs[output.id].push_back(output.logprob);
      }
      if (output.finished) out.drawn.last[output.id] = output;
    }
  }
  out.guesses = engine.guesses();
  out.cache_bytes = engine.cache().bytes();
  return out;
}

TEST(Speculation, ChangesNoTokenAndTakesFewerSteps) {
  for (const float temperature : {0.0F, 0.7F}) {
    for (const bool penalties : {false, true}) {
      SCOPED_TRACE(temperature);
      SCOPED_TRACE(penalties);
      const Result plain = answers(0, temperature, 0, penalties);
      const Result guessed = answers(5, temperature, 0, penalties);
      EXPECT_EQ(plain.guesses.checked, 0);
      EXPECT_EQ(guessed.drawn.tokens, plain.drawn.tokens);
      EXPECT_EQ(guessed.logprobs, plain.logprobs);
      for (const auto& [id, last] : plain.drawn.last) {
        EXPECT_EQ(guessed.drawn.last.at(id).reason, last.reason);
        EXPECT_EQ(guessed.drawn.last.at(id).generated_tokens, last.generated_tokens);
      }
      EXPECT_GT(guessed.guesses.checked, guessed.guesses.right);
      if (penalties || temperature > 0) continue;
      EXPECT_GT(guessed.guesses.right, 20);
      EXPECT_LT(guessed.steps, plain.steps);
    }
  }
}

// Guesses give way where blocks are few: sequences wait and begin again, and get the same tokens.
TEST(Speculation, InACacheThatHoldsFewSequences) {
  const Result plain = answers(0, 0.0F);
  const Result guessed = answers(5, 0.0F, plain.cache_bytes * 4 / 10);
  EXPECT_LT(guessed.cache_bytes, plain.cache_bytes / 2);
  EXPECT_EQ(guessed.drawn.tokens, plain.drawn.tokens);
  EXPECT_GT(guessed.guesses.right, 20);
}

// On the cpu 16 rows of a step are as good as one: so many sequences have no room for guesses, half as many have, and
// so has one with as many seats beside it as a step has tokens.
TEST(Speculation, StepsStayAsSmallAsTheyAreCheap) {
  const auto checked = [](std::int64_t sequences, std::int64_t seats) {
    models::LoadedModel model = tiny_model();
    session::Runtime runtime;
    EngineOptions options;
    options.max_num_seqs = seats;
    options.max_model_len = 192;
    EXPECT_EQ(options.max_num_batched_tokens, 512);
    options.speculation = {.num_speculative_tokens = 5, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    for (std::int64_t i = 0; i < sequences; ++i) {
      std::vector<std::int32_t> prompt = prompt_of(static_cast<std::int32_t>(i), 5);
      const auto again = prompt;
      prompt.insert(prompt.end(), again.begin(), again.end());
      EXPECT_TRUE(engine.add_request(std::move(prompt), greedy(160)).ok());
    }
    while (!engine.idle()) (void)engine.step();
    return engine.guesses().checked;
  };
  EXPECT_EQ(checked(16, 16), 0);
  EXPECT_GT(checked(8, 8), 0);
  EXPECT_GT(checked(1, 512), 0);
}

}  // namespace
}  // namespace tern::engine
