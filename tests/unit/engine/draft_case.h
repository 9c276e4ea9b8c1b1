// A case of guessing that tests of all who guess have in common: six prompts in four seats, with guesses and without.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tiny.h"

namespace tern::engine {

struct DraftCase {
  float temperature = 0.0F;
  bool penalties = false;
  bool caches_prefixes = false;
  std::uint64_t memory = 0;
  std::uint64_t swap_space = 0;
  std::int64_t guesses = 5;
  double step_cost = 0.1;
  std::int64_t new_tokens = 60;
};

struct DraftOutcome {
  Drawn drawn;
  std::map<SequenceId, std::vector<float>> logprobs;
  Guesses guesses;
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t cached_tokens = 0;
  std::uint64_t cache_bytes = 0;
};

// Without who guesses.
inline EngineOptions guessing_engine(const DraftCase& c) {
  EngineOptions options = small_engine();
  options.max_num_batched_tokens = 24;
  options.max_model_len = 140;
  options.numerics.needs = options.draft_numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
  options.kv_cache_memory = c.memory;
  options.enable_prefix_caching = c.caches_prefixes;
  options.swap.bytes = c.swap_space;
  options.speculation.draft_step_cost = c.step_cost;
  return options;
}

// Six prompts in four seats, three of which begin alike; the longer ones are computed in chunks.
inline std::vector<std::int32_t> draft_prompt(std::int32_t i) {
  std::vector<std::int32_t> prompt = prompt_of(i % 2 == 0 ? 0 : i, 40);
  const auto own = prompt_of(i, 3 + i);
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

inline DraftOutcome run_case(LLMEngine& engine, const DraftCase& c) {
  DraftOutcome out;
  for (std::int32_t i = 0; i < 6; ++i) {
    SamplingParams params = greedy(c.new_tokens + i);
    params.temperature = c.temperature;
    params.top_k = 20;
    params.request = static_cast<std::uint64_t>(i);
    if (c.penalties) params.repetition_penalty = 1.3F;
    EXPECT_TRUE(engine.add_request(draft_prompt(i), params).ok());
  }
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
  out.preemptions = engine.num_preemptions();
  out.cached_tokens = engine.cache_statistics().hit_tokens;
  out.cache_bytes = engine.cache().bytes();
  EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
  return out;
}

inline void expect_same_answers(const DraftOutcome& guessed, const DraftOutcome& plain) {
  EXPECT_EQ(guessed.drawn.tokens, plain.drawn.tokens);
  EXPECT_EQ(guessed.logprobs, plain.logprobs);
  ASSERT_EQ(guessed.drawn.last.size(), plain.drawn.last.size());
  for (const auto& [id, last] : plain.drawn.last) {
    EXPECT_EQ(guessed.drawn.last.at(id).reason, last.reason);
    EXPECT_EQ(guessed.drawn.last.at(id).generated_tokens, last.generated_tokens);
  }
}

}  // namespace tern::engine
