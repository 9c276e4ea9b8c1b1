// If these fail, what a request is answered depends on what runs beside it, on how its prompt was cut, on whether it
// was found in the cache or on whether its blocks were taken away: to the bit, on every kind of device.
#include <gtest/gtest.h>

#include "cached_answers.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::engine {
namespace {

class Laws : public ::testing::TestWithParam<const char*> {
 protected:
  Laws() : model_(tiny_model_on(device())), block_(model_.store->device()->info().preferred_kv_block) {}

  static accel::DevicePtr device() {
    if (GetParam() != std::string("cpu")) return test::open_sim({{"TERN_SIM", GetParam()}});
    return accel::Device::open(test::load_plugin("cpu"), 0).value();
  }

  [[nodiscard]] EngineOptions options(std::int64_t tokens_of_a_step) const {
    EngineOptions options = cached_engine(*model_.store->device(), false);
    options.max_num_batched_tokens = tokens_of_a_step;
    return options;
  }

  struct Request {
    std::vector<std::int32_t> prompt;
    SamplingParams params;
  };
  // Greedy, with penalties, drawn by a seed; of other lengths, and two of one.
  [[nodiscard]] static std::vector<Request> requests() {
    SamplingParams drawn = greedy(kAnswer);
    drawn.temperature = 0.9F;
    drawn.top_p = 0.9F;
    drawn.seed = 17;
    SamplingParams other = drawn;
    other.seed = 18;
    return {{prompt_of(1, 21), greedy(kAnswer)},
            {prompt_of(9, 3), penalised(kAnswer)},
            {prompt_of(4, 14), drawn},
            {prompt_of(4, 14), other}};
  }

  // Each before the next comes.
  std::vector<CachedAnswer> alone(const EngineOptions& options, const std::vector<Request>& requests) {
    session::Runtime runtime;
    LLMEngine engine(model_, any_tokenizer(), options, runtime);
    std::vector<CachedAnswer> answers;
    for (const Request& one : requests) answers.push_back(ask(engine, one.prompt, one.params));
    return answers;
  }

  struct Answered {
    std::vector<CachedAnswer> answers;
    std::int64_t preemptions = 0;
  };
  Answered together(const EngineOptions& options, const std::vector<Request>& requests) {
    session::Runtime runtime;
    LLMEngine engine(model_, any_tokenizer(), options, runtime);
    std::vector<SequenceId> ids;
    for (const Request& one : requests) ids.push_back(engine.add_request(one.prompt, one.params).value());
    const auto all = answers_of(engine);
    Answered out{.preemptions = engine.num_preemptions()};
    for (const SequenceId id : ids) out.answers.push_back(all.at(id));
    return out;
  }

  static constexpr std::int64_t kAnswer = 6;
  models::LoadedModel model_;
  std::int64_t block_;
};

TEST_P(Laws, BatchedIsAlone) {
  const auto expected = alone(options(64), requests());
  EXPECT_NE(expected[2], expected[3]) << "seeds that change nothing";
  EXPECT_EQ(together(options(64), requests()).answers, expected);
}

TEST_P(Laws, ChunkedIsWhole) {
  const auto expected = alone(options(64), requests());
  for (const std::int64_t tokens : {5, 8}) EXPECT_EQ(together(options(tokens), requests()).answers, expected) << tokens;
}

// Two that begin in a block each and want three in all: there are three.
TEST_P(Laws, PreemptedIsNot) {
  std::vector<Request> growing = {requests()[0], requests()[2]};
  for (Request& one : growing) {
    one.prompt = prompt_of(one.prompt.front(), static_cast<std::int32_t>(block_ - 3));
    one.params.max_new_tokens = block_ + 5;
  }
  EngineOptions roomy = options(64);
  roomy.max_model_len = 3 * block_;
  const auto expected = alone(roomy, growing);
  const auto got = together(tight_engine(model_, roomy), growing);
  EXPECT_GT(got.preemptions, 0);
  EXPECT_EQ(got.answers, expected);
}

TEST_P(Laws, CachedIsCold) {
  std::vector<Request> twice;
  for (const Request& one : requests()) {
    auto prompt = prompt_of(5, static_cast<std::int32_t>(block_));
    prompt.insert(prompt.end(), one.prompt.begin(), one.prompt.end());
    twice.push_back({prompt, one.params});
  }
  const auto expected = alone(options(64), twice);
  EngineOptions caching = options(64);
  caching.enable_prefix_caching = true;
  const auto got = alone(caching, twice);
  for (std::size_t i = 1; i < got.size(); ++i) EXPECT_GE(got[i].cached, block_) << i;
  EXPECT_EQ(got, expected);
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Laws, ::testing::Values("cpu", "discrete", "ascend", "graph", "embedded"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tern::engine
