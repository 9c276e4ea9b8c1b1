// If these fail, requests don't get what they ask of the sampler, or others beside them get something else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/sim/extension.h"
#include "base/strings.h"
#include "engine/scorer.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

constexpr std::int32_t kEnd = 2;  // the tiny models' end token

void allow(std::span<std::uint32_t> words, std::int32_t id) {
  words[static_cast<std::size_t>(id / 32)] |= std::uint32_t{1} << (id % 32);
}

// Each token is at most seven above the one before, beginning anew at the top; complete after so many.
class Climbing : public TokenMask {
 public:
  explicit Climbing(std::size_t most) : most_(most) {}
  void fill(std::span<std::uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0U);
    if (complete()) return allow(words, kEnd);
    for (std::int32_t id = last() + 1; id <= last() + 7; ++id) allow(words, id);
  }
  void accept(std::int32_t token) override {
    EXPECT_TRUE(complete() ? token == kEnd : token > last() && token <= last() + 7) << token << " behind " << last();
    taken_.push_back(token);
  }
  [[nodiscard]] bool complete() const override { return taken_.size() >= most_; }
  [[nodiscard]] const std::vector<std::int32_t>& taken() const { return taken_; }

 private:
  [[nodiscard]] std::int32_t last() const { return taken_.empty() || taken_.back() > 140 ? 2 : taken_.back(); }
  std::size_t most_;
  std::vector<std::int32_t> taken_;
};

// Allows one token after the other, and nothing behind them.
class Script : public TokenMask {
 public:
  explicit Script(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  void fill(std::span<std::uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0U);
    if (next_ < ids_.size()) allow(words, ids_[next_]);
  }
  void accept(std::int32_t token) override { EXPECT_EQ(token, ids_.at(next_++)); }
  [[nodiscard]] bool complete() const override { return false; }

 private:
  std::vector<std::int32_t> ids_;
  std::size_t next_ = 0;
};

// What an engine said of one request.
struct Told {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::size_t> tops;
  std::string text;
  std::vector<PromptLogprob> prompt;
  RequestOutput last;
};

struct Asked {
  std::vector<std::int32_t> prompt;
  SamplingParams params;
};

std::vector<Told> answers(models::LoadedModel& model, const std::vector<Asked>& requests, EngineOptions options,
                          const tokenizer::Tokenizer& tokenizer = any_tokenizer()) {
  session::Runtime runtime;
  LLMEngine engine(model, tokenizer, options, runtime);
  std::map<SequenceId, std::size_t> places;
  for (const Asked& asked : requests) {
    const std::size_t place = places.size();
    places[engine.add_request(asked.prompt, asked.params).value()] = place;
  }
  std::vector<Told> told(requests.size());
  while (!engine.idle()) {
    for (RequestOutput& output : engine.step()) {
      Told& one = told[places.at(output.id)];
      one.text += output.text;
      one.prompt.insert(one.prompt.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
      if (output.token >= 0) {
        one.tokens.push_back(output.token);
        one.logprobs.push_back(output.logprob);
        one.tops.push_back(output.top.size());
      }
      if (output.finished) one.last = std::move(output);
    }
  }
  return told;
}

Told answer(models::LoadedModel& model, const SamplingParams& params, const EngineOptions& options = small_engine(),
            const tokenizer::Tokenizer& tokenizer = any_tokenizer()) {
  return answers(model, {{prompt_of(1, 9), params}}, options, tokenizer)[0];
}

EngineOptions invariant_engine() {
  EngineOptions options = small_engine();
  options.numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
  options.top_logprobs = 5;
  return options;
}

TEST(Sampling, BiasForcesATokenAndBansOne) {
  const test::SimEnvironment environment({});
  for (const bool simulated : {false, true}) {
    auto model = simulated ? tiny_model_on(test::open_sim()) : tiny_model();
    const Told free = answer(model, greedy(6));
    SamplingParams forced = greedy(6);
    forced.temperature = 1.0F;
    forced.logit_bias = {{77, 100.0F}};
    EXPECT_EQ(answer(model, forced).tokens, std::vector<std::int32_t>(6, 77));
    SamplingParams banned = greedy(6);
    for (const std::int32_t token : free.tokens) banned.logit_bias.emplace_back(token, -100.0F);
    const Told other = answer(model, banned);
    ASSERT_EQ(other.tokens.size(), 6U);
    for (const std::int32_t token : other.tokens) {
      EXPECT_EQ(std::count(free.tokens.begin(), free.tokens.end(), token), 0) << token;
    }
  }
}

TEST(Sampling, EveryTokenMayHaveABias) {
  auto model = tiny_model();
  SamplingParams params = greedy(4);
  for (std::int32_t token = 0; token < 160; ++token) {
    if (token != 90) params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(answer(model, params).tokens, std::vector<std::int32_t>(4, 90));
}

// The mask of a step that was prepared knows the token that was drawn since: Climbing looks at each.
TEST(Sampling, AMaskAllowsByWhatWasDrawnLast) {
  const test::SimEnvironment environment({});
  for (const bool simulated : {false, true}) {
    for (const float temperature : {0.0F, 1.5F}) {
      auto model = simulated ? tiny_model_on(test::open_sim()) : tiny_model();
      const auto mask = std::make_shared<Climbing>(12);
      SamplingParams params = greedy(30);
      params.temperature = temperature;
      params.mask = mask;
      const Told told = answer(model, params);
      EXPECT_EQ(told.tokens.size(), 13U);
      EXPECT_EQ(told.tokens, mask->taken());
      EXPECT_EQ(told.tokens.back(), kEnd);
      EXPECT_EQ(told.last.reason, FinishReason::stop) << "complete, so it ends though ignore_eos is asked for";
    }
  }
}

// Few blocks and guesses: masked sequences are thrown out and begin again, and make no guesses.
TEST(Sampling, AMaskStandsThroughPreemptionsAndBesideGuesses) {
  auto model = tiny_model();
  EngineOptions options = invariant_engine();
  options.speculation = {.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1};
  const auto ask = [&] {
    std::vector<Asked> requests;
    for (std::int32_t i = 0; i < 5; ++i) {
      SamplingParams params = greedy(40);
      params.request = static_cast<std::uint64_t>(i);
      if (i % 2 == 0) params.mask = std::make_shared<Climbing>(static_cast<std::size_t>(20 + i));
      requests.push_back({prompt_of(i, 12), params});
    }
    return answers(model, requests, options);
  };
  const auto roomy = ask();
  session::Runtime runtime;
  options.kv_cache_memory = LLMEngine(model, any_tokenizer(), options, runtime).cache().bytes() / 2;
  const auto tight = ask();
  for (std::size_t i = 0; i < roomy.size(); ++i) EXPECT_EQ(tight[i].tokens, roomy[i].tokens) << i;
  EXPECT_EQ(roomy[4].tokens.size(), 25U);
}

// To the bit: who asks for nothing gets what they get alone, whatever the others ask for, and those what they get
// alone.
TEST(Sampling, WhatOneAsksForChangesNothingForOthers) {
  auto model = tiny_model();
  const auto requests = [] {
    std::vector<Asked> out;
    for (std::int32_t i = 0; i < 7; ++i) {
      SamplingParams params = greedy(18 + i);
      params.temperature = i % 2 == 0 ? 0.9F : 0.0F;
      params.seed = static_cast<std::uint64_t>(i);
      if (i == 2) params.logit_bias = {{40, 3.0F}, {41, -2.0F}};
      if (i == 3) params.mask = std::make_shared<Climbing>(15);
      if (i == 4) params.top_logprobs = 3;
      if (i == 5) params.min_tokens = 9;
      if (i == 6) params.repetition_penalty = 1.2F;
      out.push_back({prompt_of(i, 4 + 5 * i), params});
    }
    return out;
  };
  const auto together = answers(model, requests(), invariant_engine());
  const auto alone = requests();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const Told one = answers(model, {alone[i]}, invariant_engine())[0];
    EXPECT_EQ(together[i].tokens, one.tokens) << i;
    EXPECT_EQ(together[i].logprobs, one.logprobs) << i;
    EXPECT_EQ(together[i].tops, std::vector<std::size_t>(one.tokens.size(), i == 4 ? 3U : 0U)) << i;
  }
}

// Programs without a feature take nothing of it.
TEST(Sampling, AStepPaysForWhatItsRequestsAskFor) {
  auto model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), invariant_engine(), runtime);
  Drawn drawn;
  (void)engine.add_request(prompt_of(1, 3), greedy(4)).value();
  drawn.run(engine);
  const auto asks = [&] {
    SamplingFeatures all;
    const auto buckets = engine.runner().buckets();
    for (auto bucket = buckets.begin(); bucket + 1 != buckets.end(); ++bucket) all.include(bucket->sampling);
    return all;
  };
  EXPECT_EQ(asks(), SamplingFeatures{});
  SamplingParams params = greedy(4);
  params.logit_bias = {{3, 1.0F}};
  params.top_logprobs = 1;
  (void)engine.add_request(prompt_of(1, 3), params).value();
  drawn.run(engine);
  EXPECT_EQ(asks(), (SamplingFeatures{false, 16, false, 5}));
}

TEST(Sampling, WhereNothingIsAllowedTheRequestFailsAlone) {
  auto model = tiny_model();
  SamplingParams scripted = greedy(9);
  scripted.mask = std::make_shared<Script>(std::vector<std::int32_t>{50, 51});
  SamplingParams banned = greedy(9);
  for (std::int32_t token = 0; token < 160; ++token) {
    banned.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  const Asked sound{prompt_of(5, 7), greedy(9)};
  const auto told = answers(model, {{prompt_of(1, 4), scripted}, sound, {prompt_of(2, 4), banned}}, invariant_engine());
  EXPECT_EQ(told[1].tokens, answers(model, {sound}, invariant_engine())[0].tokens);
  EXPECT_EQ(told[0].tokens, (std::vector<std::int32_t>{50, 51}));
  EXPECT_TRUE(told[2].tokens.empty());
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_EQ(told[i].last.reason, FinishReason::failed);
    ASSERT_TRUE(told[i].last.error);
  }
  EXPECT_EQ(
      told[0].last.error->line(),
      "request 0, token 6: no token is allowed; ban fewer tokens by logit_bias, or take a grammar that the model's "
      "tokens can write.");
}

TEST(Sampling, WhatNoSamplerCanDoIsRefused) {
  auto model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), small_engine(), runtime);
  const auto refusal = [&](const auto& ask) {
    SamplingParams params = greedy(8);
    ask(params);
    const auto added = engine.add_request(prompt_of(1, 4), params);
    return added.ok() ? std::string("taken") : added.error().line();
  };
  EXPECT_EQ(refusal([](auto& p) {
              p.logit_bias = {{160, 1.0F}};
            }),
            "logit_bias: expected token ids from 0 to 159, found 160; leave it out");
  EXPECT_EQ(refusal([](auto& p) {
              p.logit_bias = {{7, NAN}};
            }),
            "logit_bias of token 7: expected a finite number or -infinity, found nan; 100 forces a token well enough");
  EXPECT_EQ(refusal([](auto& p) {
              p.logit_bias.assign(1025, {7, 1.0F});
            }),
            "logit_bias: expected at most 1024 tokens, found 1025; leave some out");
  EXPECT_EQ(
      refusal([](auto& p) { p.top_logprobs = 1; }),
      "top_logprobs: expected from 0 to 0, as this engine tells, found 1; lower it, or start the engine with more "
      "top_logprobs");
  EXPECT_EQ(refusal([](auto& p) { p.prompt_logprobs = -1; }),
            "prompt_logprobs: expected from 0 to 0, as this engine tells, found -1; lower it, or start the engine with "
            "more top_logprobs");
  EXPECT_EQ(refusal([](auto& p) { p.min_tokens = 9; }),
            "min_tokens: expected from 0 to the answer's longest, 8 tokens, found 9; lower it, or raise the other");
  EXPECT_EQ(refusal([](auto& p) { p.logit_bias.assign(1024, {7, 1.0F}); }), "taken");
}

TEST(Sampling, NothingEndsAnAnswerBeforeMinTokens) {
  auto model = tiny_model();
  SamplingParams params;
  params.max_new_tokens = 12;
  params.logit_bias = {{kEnd, 100.0F}};
  EXPECT_EQ(answer(model, params).tokens, std::vector<std::int32_t>{kEnd});
  params.min_tokens = 5;
  const Told told = answer(model, params);
  ASSERT_EQ(told.tokens.size(), 6U);
  EXPECT_EQ(std::count(told.tokens.begin(), told.tokens.end(), kEnd), 1);
  EXPECT_EQ(told.last.reason, FinishReason::stop);
  EXPECT_EQ(told.last.stop_token_id, std::nullopt) << "the model's own";
  params.logit_bias = {{kEnd, 100.0F}, {70, 90.0F}};
  params.stop_token_ids = {70};
  const Told own = answer(model, params);
  EXPECT_EQ(std::count(own.tokens.begin(), own.tokens.end(), 70), 0);
  params.logit_bias = {{70, 100.0F}};
  EXPECT_EQ(answer(model, params).last.stop_token_id, 70);
  // A complete mask ends, however short it is.
  SamplingParams masked = greedy(12);
  masked.min_tokens = 8;
  masked.mask = std::make_shared<Climbing>(3);
  EXPECT_EQ(answer(model, masked).tokens.size(), 4U);
}

std::vector<std::int32_t> ids_of(const std::string& text) {  // a byte each
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(any_tokenizer().piece_to_id(std::string(1, c)).value());
  return ids;
}

Told write(const std::string& text, SamplingParams params, const tokenizer::Tokenizer& tokenizer = any_tokenizer()) {
  auto model = tiny_model();
  params.max_new_tokens = static_cast<std::int64_t>(text.size());
  params.mask = std::make_shared<Script>(ids_of(text));
  return answer(model, params, small_engine(), tokenizer);
}

// Whose "$" is a special token.
tokenizer::Tokenizer with_special_token() {
  const auto file = std::filesystem::path(TERN_TEST_DATA) / "tokenizers" / "bl-gpt2.json";
  std::ifstream in(file);
  std::string json{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string none = R"("added_tokens":[])";
  json.replace(json.find(none), none.size(),
               R"("added_tokens":[{"id":3,"content":"$","single_word":false,"lstrip":false,"rstrip":false,)"
               R"("normalized":false,"special":true}])");
  return tokenizer::Tokenizer::from_json(json, file.string()).value();
}

TEST(Sampling, SpecialTokensAreTextWhereThatIsAsked) {
  const auto tokenizer = with_special_token();
  SamplingParams params;
  EXPECT_EQ(write("a$b", params, tokenizer).text, "ab");
  params.skip_special_tokens = false;
  EXPECT_EQ(write("a$b", params, tokenizer).text, "a$b");
  for (const bool skip : {true, false}) {
    params.skip_special_tokens = skip;
    params.stop = {"$"};
    params.include_stop_str_in_output = false;
    const Told by_text = write("a$b", params, tokenizer);
    EXPECT_EQ(by_text.text, "a");
    EXPECT_EQ(by_text.last.stop_text, "$");
    params.include_stop_str_in_output = true;
    EXPECT_EQ(write("a$b", params, tokenizer).text, "a$");
    params.stop.clear();
    params.stop_token_ids = {3};
    const Told by_token = write("a$b", params, tokenizer);
    EXPECT_EQ(by_token.text, skip ? "a" : "a$");
    EXPECT_EQ(by_token.last.stop_token_id, 3);
    EXPECT_EQ(by_token.last.stop_text, "");
    params.stop_token_ids.clear();
  }
}

TEST(Sampling, AStopTextIsToldAndShownWhereThatIsAsked) {
  SamplingParams params;
  params.stop = {"lo-wo", "-world"};
  const Told cut = write("hello-world", params);
  EXPECT_EQ(cut.text, "hel");
  EXPECT_EQ(cut.last.stop_text, "lo-wo");
  EXPECT_EQ(cut.last.reason, FinishReason::stop);
  params.include_stop_str_in_output = true;
  EXPECT_EQ(write("hello-world", params).text, "hello-wo");
  params.min_tokens = 9;  // lo-wo is past by then, and nothing of it counts
  const Told late = write("hello-world-world", params);
  EXPECT_EQ(late.text, "hello-world-world");
  EXPECT_EQ(late.last.stop_text, "-world");
  params.stop = {"nowhere"};
  const Told whole = write("hello-world", params);
  EXPECT_EQ(whole.text, "hello-world");
  EXPECT_EQ(whole.last.stop_text, "");
  EXPECT_EQ(whole.last.reason, FinishReason::length);
}

std::vector<float> logprobs_of(const Told& told) {
  std::vector<float> out;
  for (const PromptLogprob& token : told.prompt) out.push_back(token.logprob);
  return out;
}

Asked scored_prompt(std::int32_t first, std::int32_t length) {
  Asked asked{prompt_of(first, length), greedy(6)};
  asked.params.prompt_logprobs = 2;
  return asked;
}

// What the scorer says of the same text, without a cache; in chunks of 16 tokens and beside others as alone and whole.
TEST(Sampling, LogprobsOfAPromptAreThoseOfItsScore) {
  const test::SimEnvironment environment({});
  for (const bool simulated : {false, true}) {
    auto model = simulated ? tiny_model_on(test::open_sim()) : tiny_model();
    const Asked asked = scored_prompt(3, 45);
    session::Runtime runtime;
    ScorerOptions scoring;
    scoring.max_tokens = 64;
    const std::vector<double> expected = Scorer(model, scoring, runtime).score(asked.prompt);
    EngineOptions whole = invariant_engine();
    whole.max_num_batched_tokens = 64;
    const Told one = answers(model, {asked}, whole)[0];
    ASSERT_EQ(one.prompt.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const PromptLogprob& token = one.prompt[i];
      EXPECT_EQ(token.id, asked.prompt[i + 1]);
      EXPECT_NEAR(token.logprob, expected[i], 1e-4) << i;
      ASSERT_EQ(token.top.size(), 2U);
      EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
      EXPECT_GE(token.top[0].logprob, token.logprob);
      EXPECT_EQ(token.top[0].id == token.id, token.top[0].logprob == token.logprob);
    }
    const Told chunked = answers(model, {asked}, invariant_engine())[0];
    EXPECT_EQ(logprobs_of(chunked), logprobs_of(one));
    EXPECT_EQ(chunked.tokens, one.tokens);
    const Asked plain{prompt_of(9, 21), greedy(12)};
    const auto together = answers(model, {plain, asked, scored_prompt(4, 1), plain}, invariant_engine());
    EXPECT_EQ(logprobs_of(together[1]), logprobs_of(one));
    EXPECT_EQ(together[1].tokens, one.tokens);
    EXPECT_TRUE(together[2].prompt.empty()) << "nothing is before its only token";
    const Told alone = answers(model, {plain}, invariant_engine())[0];
    EXPECT_EQ(together[0].tokens, alone.tokens);
    EXPECT_EQ(together[0].logprobs, alone.logprobs);
    EXPECT_TRUE(together[0].prompt.empty());
  }
}

TEST(Sampling, LogprobsOfAPromptAreToldOnceThoughItIsComputedAgain) {
  auto model = tiny_model();
  EngineOptions options = invariant_engine();
  session::Runtime runtime;
  options.kv_cache_memory = LLMEngine(model, any_tokenizer(), options, runtime).cache().bytes() / 2;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  std::map<SequenceId, std::vector<float>> told;
  std::map<SequenceId, Asked> asked;
  for (std::int32_t i = 0; i < 4; ++i) {
    Asked request = scored_prompt(i, 14 + i);
    request.params.max_new_tokens = 40;
    asked[engine.add_request(request.prompt, request.params).value()] = request;
  }
  while (!engine.idle()) {
    for (const RequestOutput& output : engine.step()) {
      for (const PromptLogprob& token : output.prompt_logprobs) told[output.id].push_back(token.logprob);
    }
  }
  EXPECT_GT(engine.num_preemptions(), 0);
  for (const auto& [id, request] : asked) {
    EXPECT_EQ(told.at(id), logprobs_of(answers(model, {request}, invariant_engine())[0])) << id;
  }
}

// The program that gives the hidden states finds no memory, so a larger one computes its step.
TEST(Sampling, WithoutMemoryForALogprobThatRequestFailsAlone) {
  const test::SimEnvironment environment({});
  auto model = tiny_model_on(test::open_sim());
  const Asked plain{prompt_of(9, 6), greedy(7)};
  const Told alone = answers(model, {plain}, invariant_engine())[0];
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), invariant_engine(), runtime);
  const auto* faults = model.store->device()->backend().extension<tern_sim_faults>("sim.faults");
  ASSERT_EQ(faults->arm(model.store->device()->raw(), "host@1"), TERN_OK);
  Drawn drawn;
  const SequenceId sound = engine.add_request(plain.prompt, plain.params).value();
  const SequenceId scored = engine.add_request(prompt_of(3, 9), scored_prompt(3, 9).params).value();
  drawn.run(engine);
  EXPECT_EQ(drawn.tokens.at(sound), alone.tokens);
  EXPECT_FALSE(drawn.tokens.contains(scored));
  EXPECT_EQ(drawn.last.at(scored).reason, FinishReason::failed);
  ASSERT_TRUE(drawn.last.at(scored).error);
  EXPECT_EQ(drawn.last.at(scored).error->line(),
            "no memory for the log-probabilities of a prompt; leave prompt_logprobs out.");
}

}  // namespace
}  // namespace tern::engine
