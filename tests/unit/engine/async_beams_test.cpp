// If these fail, a beam search goes on where everything was to stand still: it computes over weights that change, or
// wakes an engine that has just said that it sleeps.
#include "engine/async_beams.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/engine/tiny.h"

namespace tern::engine {
namespace {

constexpr std::int64_t kForever = 20'000;  // tokens: no test waits for so many

class AsyncBeamsTest : public ::testing::Test {
 protected:
  AsyncBeamsTest() {
    setenv("TERN_HOME", (dir_ / "home").c_str(), 1);
    e2e::TinyModel model;
    model.max_positions = kForever + 100;
    model.fim = true;
    e2e::write_tiny_model(dir_ / "model", model);
    session::SessionOptions opening;
    opening.model = (dir_ / "model").string();
    opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    opening.runtime.num_threads = 1;
    session_ = session::open_session(opening).value();
    LLMOptions options;
    options.num_beams = 3;
    options.num_stops = 2;
    options.engine.max_num_seqs = 4;
    options.engine.kv_cache_memory = 32U << 20;
    llm_ = LLM::open(*session_, options).value();
  }
  ~AsyncBeamsTest() override { unsetenv("TERN_HOME"); }

  // One that has computed some rounds.
  void begin_search(AsyncLLMEngine& engine, std::int64_t tokens) {
    SamplingParams params = greedy(tokens);
    params.num_beams = 3;
    params.ignore_eos = true;
    BeamRequests requests(session_->text->tokenizer, {}, {.ids = prompt_of(1, 5)}, params);
    search_ = std::make_shared<AsyncBeams>(engine, std::move(requests), RequestOptions{},
                                           [this](AsyncBeams::Outcome&& of) { told_.set_value(std::move(of)); });
    const std::int64_t before = engine.stats().steps;
    search_->begin();
    while (engine.stats().steps < before + 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  [[nodiscard]] bool is_told() const { return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  AsyncBeams::Outcome outcome() { return outcome_.get(); }

  test::TempDir dir_;
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<LLM> llm_;
  std::shared_ptr<AsyncBeams> search_;
  std::promise<AsyncBeams::Outcome> told_;
  std::future<AsyncBeams::Outcome> outcome_ = told_.get_future();
};

TEST_F(AsyncBeamsTest, EndBeforeAPauseThatWaits) {
  AsyncLLMEngine engine(*llm_);
  constexpr std::int64_t kTokens = 150;
  begin_search(engine, kTokens);
  engine.pause(PauseMode::wait);
  EXPECT_TRUE(is_told()) << "the pause has begun over half a search";
  const std::int64_t steps = engine.stats().steps;
  EXPECT_GE(steps, kTokens);
  engine.resume();
  const auto found = outcome().answers;
  ASSERT_EQ(found.size(), 3U);
  for (const BeamAnswer& answer : found) EXPECT_EQ(answer.tokens.size(), static_cast<std::size_t>(kTokens));
  EXPECT_EQ(engine.stats().steps, steps) << "it went on behind the pause";
}

TEST_F(AsyncBeamsTest, AreAbortedByAPauseThatAborts) {
  AsyncLLMEngine engine(*llm_);
  begin_search(engine, kForever);
  engine.pause(PauseMode::abort);
  EXPECT_TRUE(is_told()) << "a round waits in the queue";
  engine.resume();
  if (!is_told()) search_->abort();
  const AsyncBeams::Outcome of = outcome();
  EXPECT_EQ(of.told.reason, FinishReason::aborted);
  EXPECT_TRUE(of.answers.empty());
  EXPECT_EQ(engine.stats().waiting, 0);
}

// It stands still and is no sleeper's to forget; then it goes on, or is aborted where it stands.
TEST_F(AsyncBeamsTest, StandStillWithAPauseThatKeeps) {
  AsyncLLMEngine engine(*llm_);
  begin_search(engine, kForever);
  engine.pause(PauseMode::keep);
  const std::int64_t steps = engine.stats().steps;
  EXPECT_FALSE(engine.sleep()) << "it slept over a search";
  EXPECT_FALSE(is_told());
  EXPECT_EQ(engine.stats().steps, steps);
  engine.resume();
  while (engine.stats().steps < steps + 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  engine.pause(PauseMode::keep);
  engine.pause(PauseMode::abort);
  EXPECT_TRUE(is_told());
  engine.resume();
  if (!is_told()) search_->abort();
  EXPECT_EQ(outcome().told.reason, FinishReason::aborted);
}

TEST_F(AsyncBeamsTest, KeepTheEngineAwake) {
  AsyncLLMEngine engine(*llm_);
  begin_search(engine, kForever);
  EXPECT_FALSE(engine.sleep()) << "it slept over a search";
  EXPECT_FALSE(engine.stats().sleeps);
  search_->abort();
  EXPECT_EQ(outcome().told.reason, FinishReason::aborted);
  EXPECT_TRUE(engine.sleep());
}

// A stop text that is one special token ends a beam by its id, says so, and shows once where that is asked for.
TEST_F(AsyncBeamsTest, EndAtASpecialTokenThatIsAStopText) {
  for (const auto& [shows, skips] : {std::pair{false, true}, {true, true}, {true, false}, {false, false}}) {
    SamplingParams params = greedy(2);
    params.num_beams = 2;
    params.stop = {"<|im_end|>"};
    params.include_stop_str_in_output = shows;
    params.skip_special_tokens = skips;
    BeamRequests requests(session_->text->tokenizer, {}, {.ids = prompt_of(1, 5)}, params);
    EXPECT_EQ(requests.params().top_logprobs, 4) << "one end beside what goes on";
    const auto told = [&](std::size_t beam, std::vector<TokenLogprob> top) {
      RequestOutput output;
      output.token = top.front().id;
      output.top = std::move(top);
      output.finished = true;
      return requests.take(beam, output);
    };
    ASSERT_EQ(requests.ask().size(), 1U);
    ASSERT_TRUE(told(0, {{'a', -0.5F}, {'b', -1.5F}, {'c', -5}, {'d', -6}}));
    ASSERT_EQ(requests.ask().size(), 2U);
    EXPECT_FALSE(told(0, {{257, -0.1F}, {'c', -7}, {'d', -8}, {'e', -9}}));
    ASSERT_TRUE(told(1, {{'c', -0.2F}, {'d', -7}, {'e', -8}, {'f', -9}}));
    ASSERT_TRUE(requests.done());
    ASSERT_EQ(requests.num_answers(), 2U);
    const auto& tokenizer = session_->text->tokenizer;
    const BeamAnswer ended = requests.answer(0), full = requests.answer(1);
    EXPECT_EQ(ended.tokens.back().id, 257);
    EXPECT_EQ(ended.text, tokenizer.decode(TokenIds{'a'}, true) + (shows ? "<|im_end|>" : ""));
    EXPECT_EQ(ended.stop_text, "<|im_end|>");
    EXPECT_EQ(ended.reason, FinishReason::stop);
    EXPECT_FALSE(ended.stop_token_id);
    EXPECT_EQ(full.text, tokenizer.decode(TokenIds{'b', 'c'}, true));
    EXPECT_EQ(full.stop_text, "");
    EXPECT_EQ(full.reason, FinishReason::length);
  }
}

// The program's search has room for stop texts that are tokens beside the model's end.
TEST_F(AsyncBeamsTest, OfTheProgramEndAtSpecialTokens) {
  SamplingParams params = greedy(12);
  params.num_beams = 3;
  params.length_penalty = -4;
  params.ignore_eos = false;
  const std::vector<Prompt> prompts = {std::string("ab")};
  params.stop_token_ids = {256, 258};
  const Answer by_id = llm_->generate(prompts, params).at(0);
  params.stop_token_ids.clear();
  params.stop = {"<|im_start|>", "<|fim_prefix|>"};
  const Answer by_text = llm_->generate(prompts, params).at(0);
  ASSERT_FALSE(by_id.error) << by_id.error->line();
  ASSERT_FALSE(by_text.error) << by_text.error->line();
  EXPECT_EQ(by_text.text, by_id.text);
  EXPECT_EQ(by_text.tokens.size(), by_id.tokens.size());
  params.stop = {"<|im_start|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
  EXPECT_TRUE(llm_->generate(prompts, params).at(0).error) << "these four and the model's are more than were told of";
}

}  // namespace
}  // namespace tern::engine
