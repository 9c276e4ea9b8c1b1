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
    e2e::write_tiny_model(dir_ / "model", model);
    session::SessionOptions opening;
    opening.model = (dir_ / "model").string();
    opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    opening.runtime.num_threads = 1;
    session_ = session::open_session(opening).value();
    LLMOptions options;
    options.num_beams = 3;
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

}  // namespace
}  // namespace tern::engine
