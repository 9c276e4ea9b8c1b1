// Many callers over one LLM, each told what is its own.
#include "engine/async_llm_engine.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/engine/tiny.h"

namespace tern::engine {
namespace {

struct Told {
  std::vector<std::int32_t> tokens;
  RequestOutput last;
};

// The outputs of one request, once it has ended.
class Waiting {
 public:
  OutputCallback callback() {
    return [this](RequestOutput&& output) {
      if (output.token >= 0) told_.tokens.push_back(output.token);
      if (!output.finished) return;
      told_.last = std::move(output);
      done_.set_value();
    };
  }
  Told get() {
    done_.get_future().get();
    return told_;
  }

 private:
  Told told_;
  std::promise<void> done_;
};

EncodedPrompt asked(std::int32_t first) { return {.ids = prompt_of(first, 5)}; }

class AsyncLLMEngineTest : public ::testing::Test {
 protected:
  AsyncLLMEngineTest() {
    setenv("TERN_HOME", (dir_ / "home").c_str(), 1);
    e2e::write_tiny_model(dir_ / "model");
    session::SessionOptions opening;
    opening.model = (dir_ / "model").string();
    opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    opening.dtype = TERN_F32;
    session_ = session::open_session(opening).value();
    LLMOptions options;
    options.engine.max_num_seqs = 4;
    options.max_model_len = 128;
    llm_ = LLM::open(*session_, options).value();
  }
  ~AsyncLLMEngineTest() override { unsetenv("TERN_HOME"); }

  test::TempDir dir_;
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<LLM> llm_;
};

TEST_F(AsyncLLMEngineTest, AnswersManyThreadsAsItWouldOne) {
  AsyncLLMEngine engine(*llm_);
  std::vector<std::vector<std::int32_t>> alone;
  for (std::int32_t i = 0; i < 12; ++i) {
    Waiting one;
    (void)engine.submit(asked(i), greedy(8), one.callback());
    alone.push_back(one.get().tokens);
    EXPECT_EQ(alone.back().size(), 8U);
  }
  std::vector<std::vector<std::int32_t>> together(alone.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    threads.emplace_back([&, i] {
      Waiting one;
      (void)engine.submit(asked(static_cast<std::int32_t>(i)), greedy(8), one.callback());
      together[i] = one.get().tokens;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().cache_blocks_used, 0);
}

TEST_F(AsyncLLMEngineTest, AbortEndsARequestThatRunsAndOneThatWaits) {
  AsyncLLMEngine engine(*llm_);
  std::vector<Waiting> many(8);  // more than there are seats
  std::vector<AsyncLLMEngine::Ticket> tickets;
  for (Waiting& one : many) tickets.push_back(engine.submit(asked(1), greedy(50), one.callback()));
  for (const auto ticket : tickets) engine.abort(ticket);
  for (Waiting& one : many) EXPECT_EQ(one.get().last.reason, FinishReason::aborted);
  engine.abort(tickets[0]);  // that has ended: nothing
  Waiting after;
  (void)engine.submit(asked(1), greedy(4), after.callback());
  EXPECT_EQ(after.get().tokens.size(), 4U);
}

TEST_F(AsyncLLMEngineTest, SleepsAndAnswersAsBefore) {
  AsyncLLMEngine engine(*llm_);
  const auto answer = [&] {
    Waiting one;
    (void)engine.submit(asked(1), greedy(8), one.callback());
    return one.get().tokens;
  };
  const auto before = answer();
  ASSERT_TRUE(engine.sleep());
  EXPECT_TRUE(engine.stats().sleeps);
  EXPECT_EQ(engine.stats().cache_blocks, 0);
  EXPECT_EQ(session_->model.store, nullptr) << "the weights are still there";
  EXPECT_EQ(answer(), before);
  EXPECT_FALSE(engine.stats().sleeps);
  EXPECT_GT(engine.stats().cache_blocks, 0);
  Waiting running;
  std::promise<void> first, go_on;
  (void)engine.submit(asked(1), greedy(100),
                      [&, told = running.callback(), is_first = true](RequestOutput&& output) mutable {
                        if (std::exchange(is_first, false)) {
                          first.set_value();
                          go_on.get_future().wait();
                        }
                        told(std::move(output));
                      });
  first.get_future().wait();
  auto slept = std::async(std::launch::async, [&] { return engine.sleep(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  go_on.set_value();
  EXPECT_FALSE(slept.get()) << "it slept over a request";
  EXPECT_EQ(running.get().last.reason, FinishReason::length);
}

TEST_F(AsyncLLMEngineTest, FallsAsleepWhereNobodyAsks) {
  AsyncLLMEngine engine(*llm_, std::chrono::seconds(1));
  for (int i = 0; i < 300 && !engine.stats().sleeps; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(engine.stats().sleeps);
  Waiting one;
  (void)engine.submit(asked(1), greedy(4), one.callback());
  EXPECT_EQ(one.get().tokens.size(), 4U);
}

// Weights that can't be read again are that request's error, and the next one tries again.
TEST_F(AsyncLLMEngineTest, SaysWhyItDoesNotWake) {
  AsyncLLMEngine engine(*llm_);
  ASSERT_TRUE(engine.sleep());
  const auto source = session_->source;
  session_->source =
      std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open_config(dir_ / "model").value());
  Waiting one;
  (void)engine.submit(asked(1), greedy(4), one.callback());
  EXPECT_EQ(one.get().last.reason, FinishReason::failed);
  session_->source = source;
  Waiting two;
  (void)engine.submit(asked(1), greedy(4), two.callback());
  EXPECT_EQ(two.get().tokens.size(), 4U);
}

TEST_F(AsyncLLMEngineTest, SaysWhatIsWrongWithARequest) {
  AsyncLLMEngine engine(*llm_);
  Waiting empty;
  (void)engine.submit({}, greedy(4), empty.callback());
  const Told told = empty.get();
  EXPECT_EQ(told.last.reason, FinishReason::failed);
  ASSERT_TRUE(told.last.error.has_value());
  EXPECT_NE(told.last.error->line().find("at least one token"), std::string::npos);
}

TEST_F(AsyncLLMEngineTest, RunsOtherWorkBetweenSteps) {
  AsyncLLMEngine engine(*llm_);
  std::int64_t length = 0;
  engine.run([&](LLM& of) { length = of.max_model_len(); });
  EXPECT_EQ(length, llm_->max_model_len());
}

TEST_F(AsyncLLMEngineTest, SaysWhetherItSleepsAsSoonAsWorkIsDone) {
  AsyncLLMEngine engine(*llm_);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine.sleep());
    ASSERT_TRUE(engine.stats().sleeps);
    engine.run([](LLM& of) { of.be_ready(); });
    ASSERT_FALSE(engine.stats().sleeps);
  }
}

TEST_F(AsyncLLMEngineTest, TellsThoseOnTheirWayWhenItEnds) {
  Waiting runs;
  {
    AsyncLLMEngine engine(*llm_);
    (void)engine.submit(asked(1), greedy(50), runs.callback());
  }
  EXPECT_EQ(runs.get().last.finished, true);
}

}  // namespace
}  // namespace tern::engine
