// If these fail, guesses by earlier texts change answers, tell one tenant what another was answered, outlive what was
// evicted, or take memory without bound.
#include "engine/suffix_decoding.h"

#include <gtest/gtest.h>

#include "tiny.h"

namespace tern::engine {
namespace {

struct SuffixCase {
  bool guesses = true;
  float temperature = 0.0F;
  bool penalties = false;
  std::uint64_t memory = 0;
  std::int64_t max_cached_requests = 100;
};

EngineOptions suffix_engine(const SuffixCase& c) {
  EngineOptions options = small_engine();
  options.max_num_batched_tokens = 24;
  options.max_model_len = 140;
  options.numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
  options.kv_cache_memory = c.memory;
  if (c.guesses) {
    options.speculation.num_speculative_tokens = 6;
    options.speculation.suffix = SuffixOptions{.max_cached_requests = c.max_cached_requests};
  }
  return options;
}

struct SuffixRound {
  Drawn drawn;
  std::map<SequenceId, std::vector<float>> logprobs;
  std::int64_t steps = 0;
  Guesses guesses;
};

// Six prompts in four seats, each of which says its words several times.
SuffixRound ask_round(LLMEngine& engine, const SuffixCase& c, const std::string& salt = "", std::int64_t repeats = 4) {
  SuffixRound out;
  const Guesses before = engine.guesses();
  SequenceId first = 0;
  for (std::int32_t i = 0; i < 6; ++i) {
    std::vector<std::int32_t> prompt;
    for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
      const auto words = prompt_of(i, 5);
      prompt.insert(prompt.end(), words.begin(), words.end());
    }
    SamplingParams params = greedy(80 + i);
    params.temperature = c.temperature;
    params.request = static_cast<std::uint64_t>(i);
    if (c.penalties) params.repetition_penalty = 1.05F;
    const auto id = engine.add_request(std::move(prompt), params, {}, {.cache_salt = salt});
    EXPECT_TRUE(id.ok());
    if (i == 0) first = *id;
  }
  while (!engine.idle()) {
    ++out.steps;
    for (auto& output : engine.step()) {
      const SequenceId id = output.id - first;
      if (output.token >= 0) {
        out.drawn.tokens[id].push_back(output.token);
        out.logprobs[id].push_back(output.logprob);
      }
      if (output.finished) out.drawn.last[id] = output;
    }
  }
  out.guesses = engine.guesses();
  out.guesses.checked -= before.checked;
  out.guesses.right -= before.right;
  return out;
}

void expect_same_round(const SuffixRound& guessed, const SuffixRound& plain) {
  EXPECT_EQ(guessed.drawn.tokens, plain.drawn.tokens);
  EXPECT_EQ(guessed.logprobs, plain.logprobs);
  for (const auto& [id, last] : plain.drawn.last) {
    EXPECT_EQ(guessed.drawn.last.at(id).reason, last.reason);
    EXPECT_EQ(guessed.drawn.last.at(id).generated_tokens, last.generated_tokens);
  }
}

TEST(SuffixDecoding, ChangesNoTokenAndLearnsFromAnswersBefore) {
  models::LoadedModel model = tiny_model();
  for (const float temperature : {0.0F, 0.9F}) {
    for (const bool penalties : {false, true}) {
      SCOPED_TRACE(temperature);
      SCOPED_TRACE(penalties);
      SuffixCase c = {.guesses = false, .temperature = temperature, .penalties = penalties};
      session::Runtime runtime;
      LLMEngine none(model, any_tokenizer(), suffix_engine(c), runtime);
      const SuffixRound plain = ask_round(none, c);
      EXPECT_EQ(plain.guesses.checked, 0);
      c.guesses = true;
      LLMEngine engine(model, any_tokenizer(), suffix_engine(c), runtime);
      const SuffixRound first = ask_round(engine, c);
      const SuffixRound second = ask_round(engine, c);
      expect_same_round(first, plain);
      expect_same_round(second, plain);
      EXPECT_GT(first.guesses.checked, first.guesses.right);
      EXPECT_GT(second.guesses.right, 120);
      EXPECT_GT(second.guesses.right, (temperature > 0 ? 2 : 1) * first.guesses.right) << "the same answers again";
      EXPECT_LT(second.steps, plain.steps * 3 / 4);
      if (temperature > 0 || penalties) continue;
      EXPECT_GT(first.guesses.right, 20) << "they repeat their own words";
    }
  }
}

// Not even how many steps an answer takes tells a tenant what was answered to others.
TEST(SuffixDecoding, AnswersGuessForTheirOwnSaltAlone) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  const SuffixCase c = {.temperature = 0.9F};
  LLMEngine fresh(model, any_tokenizer(), suffix_engine(c), runtime);
  const SuffixRound alone = ask_round(fresh, c, "mine");
  LLMEngine shared(model, any_tokenizer(), suffix_engine(c), runtime);
  (void)ask_round(shared, c, "another's");
  (void)ask_round(shared, c, "");
  const SuffixRound beside = ask_round(shared, c, "mine");
  expect_same_round(beside, alone);
  EXPECT_EQ(beside.steps, alone.steps);
  EXPECT_EQ(beside.guesses.checked, alone.guesses.checked);
  EXPECT_EQ(beside.guesses.right, alone.guesses.right);
  EXPECT_LT(ask_round(shared, c, "another's").steps, alone.steps) << "its own answers are still there";
}

TEST(SuffixDecoding, KeepsNoAnswersWhereNoneMayBe) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  const SuffixCase c = {.temperature = 0.9F, .max_cached_requests = 0};
  LLMEngine engine(model, any_tokenizer(), suffix_engine(c), runtime);
  const SuffixRound first = ask_round(engine, c);
  const SuffixRound second = ask_round(engine, c);
  expect_same_round(second, first);
  EXPECT_EQ(second.guesses.right, first.guesses.right);
}

// Guesses give way where blocks are few: sequences wait and begin again, and get the same tokens.
TEST(SuffixDecoding, InACacheThatHoldsFewSequences) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  SuffixCase c = {.guesses = false};
  LLMEngine none(model, any_tokenizer(), suffix_engine(c), runtime);
  const SuffixRound plain = ask_round(none, c);
  c.guesses = true;
  c.memory = none.cache().bytes() * 4 / 10;
  LLMEngine engine(model, any_tokenizer(), suffix_engine(c), runtime);
  expect_same_round(ask_round(engine, c), plain);
  expect_same_round(ask_round(engine, c), plain);
  EXPECT_GT(engine.num_preemptions(), 0);
  EXPECT_GT(engine.guesses().right, 100);
}

TEST(SuffixDecoding, LearnsFromAnAnswerThatWasAborted) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  const SuffixCase c = {.temperature = 0.9F};
  const auto answer = [](LLMEngine& engine, std::size_t most) {
    SamplingParams params = greedy(80);
    params.temperature = 0.9F;
    const SequenceId id = engine.add_request(prompt_of(3, 20), params).value();
    Drawn drawn;
    while (!engine.idle()) {
      drawn.step(engine);
      if (drawn.tokens[id].size() >= most) engine.abort(id);
    }
    return drawn.tokens[id];
  };
  LLMEngine fresh(model, any_tokenizer(), suffix_engine(c), runtime);
  const auto all = answer(fresh, 100);
  LLMEngine engine(model, any_tokenizer(), suffix_engine(c), runtime);
  const auto some = answer(engine, 40);
  EXPECT_LT(some.size(), 60U);
  const std::int64_t before = engine.guesses().right;
  EXPECT_EQ(answer(engine, 100), all);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  EXPECT_GT(engine.guesses().right - before, fresh.guesses().right + 5);
}

// A request that a proposer is told of, token by token.
struct FollowedRequest {
  Sequence sequence;
  FollowedRequest(SequenceId id, std::vector<std::int32_t> prompt, const std::string& salt = "") {
    sequence.id = id;
    sequence.prompt_length = sequence.computed = static_cast<std::int64_t>(prompt.size());
    sequence.tokens = std::move(prompt);
    sequence.cache_salt = salt;
  }
  std::vector<std::int32_t> guesses(SuffixDecoding& by, std::int64_t most = 4) {
    sequence.drafts.clear();
    const DraftWish wish{&sequence, true, most};
    by.propose(std::span(&wish, 1), 1);
    return sequence.drafts;
  }
  void answer(SuffixDecoding& by, const std::vector<std::int32_t>& tokens) {
    for (const std::int32_t token : tokens) {
      sequence.tokens.push_back(token);
      (void)guesses(by);
    }
  }
};

using SuffixIds = std::vector<std::int32_t>;

SuffixDecoding suffix_decoding(const SuffixOptions& suffix) {
  SpeculativeOptions options;
  options.num_speculative_tokens = 8;
  options.suffix = suffix;
  return SuffixDecoding(options);
}

TEST(SuffixDecoding, OldestAnswersLeaveFirst) {
  SuffixDecoding by = suffix_decoding({.max_cached_requests = 2});
  const auto answered = [&](SequenceId id, const SuffixIds& tokens, const std::string& salt) {
    FollowedRequest one(id, {90, 91}, salt);
    one.answer(by, tokens);
    by.finish(one.sequence);
  };
  const auto after = [&](SequenceId id, const SuffixIds& prompt, const std::string& salt = "") {
    return FollowedRequest(id, prompt, salt).guesses(by);
  };
  answered(0, {1, 2, 3, 4}, "");
  answered(1, {5, 6, 7, 8}, "");
  EXPECT_EQ(after(100, {1, 2}), (SuffixIds{3, 4}));
  answered(2, {9, 10, 11, 12}, "other");
  EXPECT_EQ(by.num_answers(), 2);
  EXPECT_EQ(after(101, {1, 2}), SuffixIds{}) << "it was the oldest of all";
  EXPECT_EQ(after(102, {5, 6}), (SuffixIds{7, 8}));
  EXPECT_EQ(after(103, {9, 10}), SuffixIds{}) << "another's";
  EXPECT_EQ(after(104, {9, 10}, "other"), (SuffixIds{11, 12}));
  answered(3, {13}, "");
  EXPECT_EQ(by.num_answers(), 2) << "one token is followed by nothing, and takes nobody's place";
  answered(4, {13, 14, 15}, "other");
  EXPECT_EQ(after(105, {5, 6}), SuffixIds{});
  answered(5, {1, 2, 9}, "");
  EXPECT_EQ(after(106, {1, 2}), SuffixIds{9}) << "a salt that had no answers any more";
}

// Who still writes when newer ones take its place writes no further into what is kept.
TEST(SuffixDecoding, AnAnswerMayLeaveBeforeItEnds) {
  SuffixDecoding by = suffix_decoding({.max_cached_requests = 1});
  FollowedRequest first(0, {90, 91});
  first.answer(by, {1, 2, 3});
  FollowedRequest second(1, {90, 91});
  second.answer(by, {5, 6, 7});
  first.answer(by, {4, 1, 2});
  EXPECT_EQ(first.guesses(by), (SuffixIds{3, 4})) << "its own words are still its own";
  EXPECT_EQ(FollowedRequest(2, {1, 2}).guesses(by), SuffixIds{});
  by.finish(first.sequence);
  EXPECT_EQ(FollowedRequest(3, {1, 2}).guesses(by), SuffixIds{});
  EXPECT_EQ(FollowedRequest(4, {5, 6}).guesses(by), SuffixIds{7});
  by.finish(second.sequence);
  EXPECT_EQ(by.num_answers(), 1);
}

TEST(SuffixDecoding, ARequestThatNeverHadAWishIsLearned) {
  SuffixDecoding by = suffix_decoding({});
  FollowedRequest one(0, {90, 91});
  for (const std::int32_t token : {1, 2, 3}) one.sequence.tokens.push_back(token);
  by.finish(one.sequence);
  EXPECT_EQ(FollowedRequest(1, {1, 2}).guesses(by), SuffixIds{3});
  EXPECT_EQ(FollowedRequest(2, {90, 91}).guesses(by), SuffixIds{}) << "a prompt is nobody else's";
}

// A prompt is learned as it's computed, and its words guess for it alone.
TEST(SuffixDecoding, APromptGuessesForItself) {
  SuffixDecoding by = suffix_decoding({});
  FollowedRequest one(0, {1, 2, 3, 4, 5, 1, 2});
  one.sequence.computed = 3;
  const DraftWish wish{&one.sequence, false, 0};
  by.propose(std::span(&wish, 1), 1);
  EXPECT_TRUE(one.sequence.drafts.empty());
  EXPECT_EQ(one.guesses(by), (SuffixIds{3, 4}));
  EXPECT_EQ(one.guesses(by, 1), SuffixIds{3});
  EXPECT_EQ(one.guesses(by, 0), SuffixIds{});
  EXPECT_EQ(FollowedRequest(1, {8, 2, 3}).guesses(by), SuffixIds{});
  EXPECT_EQ(by.bytes(), 0);
}

// What is kept of answers stays below the bound, whatever their number and length, and is told to the byte.
TEST(SuffixDecoding, AnswersTakeNoMoreMemoryThanTheyMay) {
  constexpr std::int64_t kMost = 100'000;
  SuffixDecoding by = suffix_decoding({.max_bytes = kMost});
  std::int64_t most = 0;
  for (std::int32_t id = 0; id < 60; ++id) {
    FollowedRequest one(id, {1, 2}, std::to_string(id % 3));
    for (std::int32_t i = 0; i < 10 * (id % 7); ++i) {
      one.answer(by, {(id * 31 + i * i * 7) % 500});
      EXPECT_LE(by.bytes(), kMost);
      most = std::max(most, by.bytes());
    }
    by.finish(one.sequence);
  }
  EXPECT_GT(most, kMost * 9 / 10);
  EXPECT_GT(by.num_answers(), 3);
  EXPECT_LT(by.num_answers(), 50);
  FollowedRequest longest(100, {1, 2});
  for (std::int32_t i = 0; i < 3000; ++i) longest.answer(by, {1000 + i});
  EXPECT_EQ(by.num_answers(), 0) << "the only one is too long";
  EXPECT_EQ(by.bytes(), 0);
}

}  // namespace
}  // namespace tern::engine
