// Heads that guess, by PyTorch: of EAGLE-3 and of multi-token prediction. What they guess from the model's states, and
// what follows from their own guesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/head_runner.h"
#include "golden.h"
#include "models/eagle3.h"
#include "models/mtp.h"

namespace tern::golden {
namespace {

using engine::HeadPart;
using engine::HeadRunner;

constexpr double kLogits = 2e-4;  // absolute
constexpr const char* kStates = "states of the test";

std::unique_ptr<models::SpeculativeHead> open_eagle3(const std::filesystem::path& folder,
                                                     const models::LoadedModel& model) {
  return models::open_eagle3(std::make_shared<checkpoint::CheckpointSource>(
                                 checkpoint::CheckpointSource::open(folder / "head").value()),
                             model.config)
      .value();
}

std::unique_ptr<models::SpeculativeHead> open_mtp(const std::filesystem::path& /*folder*/,
                                                  const models::LoadedModel& model) {
  return models::open_mtp(model.source, model.config).value();
}

struct Case {
  const char* folder;
  std::unique_ptr<models::SpeculativeHead> (*open)(const std::filesystem::path& folder,
                                                   const models::LoadedModel& model);
  std::vector<std::int64_t> streams;
};

class SpeculativeHead : public testing::TestWithParam<Case> {
 protected:
  SpeculativeHead() {
    head_->load(model_, {.max_positions = 128}).value();
    auto specs = model_.architecture->cache_specs(model_.config);
    for (auto& spec : head_->cache_specs()) specs.push_back(spec);
    cache_.emplace(model_.store, specs, engine::CacheOptions{.max_model_len = 128, .max_num_seqs = 2});
    model_.store->create(kStates, make_desc(TERN_F32, {kTokens, head_->state_width()}));
    engine::RunnerOptions runner;
    runner.max_num_seqs = 2;
    runner.max_num_batched_tokens = kTokens;
    runner.states = kStates;
    runner.streams = head_->streams();
    runner_.emplace(model_, *cache_, runner, runtime_);
    head_runner_.emplace(
        model_, *head_, *cache_, kStates,
        engine::HeadRunnerOptions{
            .max_num_seqs = 2, .max_num_batched_tokens = kTokens, .numerics = {}, .return_logits = true},
        runtime_);
    sequence_.tokens = numbers_.ints("tokens");
    sequence_.prompt_length = sequence_.length();
    sequence_.seat = 1;
    for (std::int32_t block = 1; (block - 1) * cache_->block_size() < 2 * kTokens; ++block)
      sequence_.blocks.push_back(block);
    engine::Batch all = {{&sequence_, 0, kTokens, true, 0}};
    (void)runner_->run(all);
  }

  // Of the last run's only guess, the largest difference from `expected` on.
  [[nodiscard]] double error(std::span<const float> expected) const {
    double worst = 0;
    const std::span<const float> got = head_runner_->logits();
    EXPECT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max<double>(worst, std::abs(got[i] - expected[i]));
    return worst;
  }

  static constexpr std::int64_t kTokens = 64;
  std::filesystem::path folder_ = fixture(GetParam().folder);
  Numbers numbers_{folder_ / "golden.safetensors"};
  models::LoadedModel model_ = load(folder_);
  std::unique_ptr<models::SpeculativeHead> head_ = GetParam().open(folder_, model_);
  session::Runtime runtime_;
  std::optional<engine::CacheEngine> cache_;
  std::optional<engine::ModelRunner> runner_;
  std::optional<HeadRunner> head_runner_;
  engine::Sequence sequence_;
};

TEST_P(SpeculativeHead, ReadsTheModelsStates) {
  EXPECT_EQ(head_->streams(), GetParam().streams);
  const std::vector<float> expected = numbers_.floats("states");
  const std::vector<float> got = download(*model_.store, kStates);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
}

TEST_P(SpeculativeHead, GuessesFromEachTokenAsInPyTorch) {
  const std::vector<float> expected = numbers_.floats("first");
  const std::size_t width = expected.size() / (kTokens - 1);
  for (std::int64_t pair = 0; pair + 1 < kTokens; ++pair) {
    const HeadPart part{&sequence_, pair, 1, pair, true};
    (void)head_runner_->run(std::span(&part, 1), HeadRunner::States::of_model);
    ASSERT_LT(error(std::span(expected).subspan(static_cast<std::size_t>(pair) * width, width)), kLogits) << pair;
  }
  // In chunks, of which the last alone draws.
  for (const std::int64_t cut : {1, 20, 62}) {
    const HeadPart first{&sequence_, 0, cut, 0, false};
    EXPECT_TRUE(head_runner_->run(std::span(&first, 1), HeadRunner::States::of_model).empty());
    const HeadPart rest{&sequence_, cut, kTokens - 1 - cut, cut, true};
    (void)head_runner_->run(std::span(&rest, 1), HeadRunner::States::of_model);
    EXPECT_LT(error(std::span(expected).last(width)), kLogits) << cut;
  }
}

TEST_P(SpeculativeHead, FollowsItsOwnGuessesAsInPyTorch) {
  const std::vector<float> chained = numbers_.floats("chained");
  const std::vector<std::int32_t> starts = numbers_.ints("starts"), guesses = numbers_.ints("guesses");
  const auto depth = static_cast<std::int64_t>(guesses.size() / starts.size());
  const std::size_t width = chained.size() / (starts.size() * static_cast<std::size_t>(depth - 1));
  const HeadPart all{&sequence_, 0, kTokens - 1, 0, false};
  for (std::size_t s = 0; s < starts.size(); ++s) {
    SCOPED_TRACE(starts[s]);
    (void)head_runner_->run(std::span(&all, 1), HeadRunner::States::of_model);
    engine::Sequence sequence = sequence_;
    sequence.tokens.resize(static_cast<std::size_t>(starts[s]) + 2);
    HeadPart part{&sequence, starts[s], 1, starts[s], true};
    HeadRunner::States from = HeadRunner::States::of_model;
    for (std::int64_t step = 0; step < depth; ++step) {
      const auto drawn = head_runner_->run(std::span(&part, 1), from);
      const std::size_t at = s * static_cast<std::size_t>(depth) + static_cast<std::size_t>(step);
      ASSERT_EQ(drawn.size(), 1U);
      EXPECT_EQ(drawn[0].id, guesses[at]) << step;
      if (step > 0) {
        EXPECT_LT(error(std::span(chained).subspan((at - s - 1) * width, width)), kLogits) << step;
      }
      sequence.drafts.push_back(guesses[at]);
      part.begin = starts[s] + 1 + step;
      part.state = 0;
      from = HeadRunner::States::of_head;
    }
  }
}

// Two at once, in either order, guess what each does alone.
TEST_P(SpeculativeHead, GuessesForSeveralAtOnce) {
  engine::Sequence other = sequence_;
  other.seat = 2;
  const auto held = static_cast<std::int32_t>(sequence_.blocks.size());
  for (std::int32_t& block : other.blocks) block += held;
  std::reverse(other.tokens.begin(), other.tokens.end());
  const auto guesses = [&](const std::vector<std::pair<engine::Sequence*, std::int64_t>>& some) {
    std::vector<HeadPart> parts;
    std::int64_t state = 0;
    for (const auto& [sequence, count] : some) {
      sequence->drafts.clear();
      parts.push_back({sequence, 0, count, state, true});
      state += count;
    }
    engine::Batch batch;
    for (const HeadPart& part : parts) batch.push_back({part.sequence, 0, part.count, true, 0});
    (void)runner_->run(batch);
    std::map<engine::Sequence*, std::vector<std::int32_t>> out;
    HeadRunner::States from = HeadRunner::States::of_model;
    for (int step = 0; step < 3; ++step) {
      const auto drawn = head_runner_->run(parts, from);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        HeadPart& part = parts[i];
        out[part.sequence].push_back(drawn[i].id);
        if (step == 0) part.sequence->tokens.resize(static_cast<std::size_t>(part.count) + 1);
        part.sequence->drafts.push_back(drawn[i].id);
        part = {part.sequence, part.begin + part.count, 1, static_cast<std::int64_t>(i), true};
      }
      from = HeadRunner::States::of_head;
    }
    return out;
  };
  const engine::Sequence first = sequence_, second = other;
  const auto restored = [&] { sequence_ = first, other = second; };
  const auto alone = guesses({{&sequence_, 30}});
  restored();
  const auto other_alone = guesses({{&other, 25}});
  restored();
  auto both = guesses({{&sequence_, 30}, {&other, 25}});
  EXPECT_EQ(both.at(&sequence_), alone.at(&sequence_));
  EXPECT_EQ(both.at(&other), other_alone.at(&other));
  restored();
  both = guesses({{&other, 25}, {&sequence_, 30}});
  EXPECT_EQ(both.at(&sequence_), alone.at(&sequence_));
  EXPECT_EQ(both.at(&other), other_alone.at(&other));
}

// EAGLE-3 reads three layers of a model of 7, as nothing says others; prediction what the final norm gives.
INSTANTIATE_TEST_SUITE_P(Golden, SpeculativeHead,
                         testing::Values(Case{"eagle3", open_eagle3, {2, 3, 4}}, Case{"mtp-glm4-moe", open_mtp, {}},
                                         Case{"mtp-deepseek-v3", open_mtp, {}}, Case{"mtp-deepseek-v32", open_mtp, {}},
                                         Case{"mtp-qwen3.5", open_mtp, {}}, Case{"mtp-qwen3.5-moe", open_mtp, {}},
                                         Case{"mtp-qwen3-next", open_mtp, {}}),
                         [](const auto& info) {
                           std::string name = info.param.folder;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace tern::golden
