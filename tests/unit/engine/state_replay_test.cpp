// If these fail, guesses that were wrong stay in a model's states, or cost what they needn't.
#include "engine/state_replay.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tiny.h"

namespace tern::engine {
namespace {

constexpr const char* kFamilies[] = {"qwen3.5-untied",   "qwen3.5-moe-untied", "qwen3-next-tied", "lfm2-tied",
                                     "granite-h-untied", "granite-h-tied",     "falcon-h1-untied"};

EngineOptions guessing(std::int64_t guesses) {
  EngineOptions options = small_engine();
  options.max_model_len = 140;
  options.speculation.num_speculative_tokens = guesses;
  return options;
}

constexpr std::uint32_t kNeeds = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;

// Two sequences in two seats, whose guesses are right as far as a test says.
class Stepped {
 public:
  explicit Stepped(models::LoadedModel& model)
      : model_(model),
        specs_(model.architecture->cache_specs(model.config)),
        cache_(model.store, specs_, {.max_model_len = 64, .max_num_seqs = 2, .guesses = true}),
        replay_(model, cache_, {.max_num_seqs = 2, .rows = 2 + kMostDrafts, .numerics = numerics()}, runtime_) {
    RunnerOptions runner;
    runner.max_num_seqs = 2;
    runner.max_num_batched_tokens = 64;
    runner.numerics = numerics();
    runner.max_drafts = kMostDrafts;
    runner.replay_rows = replay_.rows();
    runner_.emplace(model, cache_, runner, runtime_);
    std::int32_t block = 1;
    for (std::int32_t i = 0; i < 2; ++i) {
      sequences_[i].tokens = prompt_of(5 + 40 * i, 20 - 3 * i);
      sequences_[i].prompt_length = sequences_[i].length();
      sequences_[i].seat = i + 1;
      for (std::int64_t at = 0; at < 64; at += cache_.block_size()) sequences_[i].blocks.push_back(block++);
      compute({{&sequences_[i], 0, sequences_[i].length(), true, 0}});
    }
  }

  // Each has its last token drawn and `drafts` guessed behind it, of which the first `right` stay.
  void guess(const std::vector<std::int32_t> (&drafts)[2], const std::int64_t (&right)[2]) {
    Batch batch;
    for (int i = 0; i < 2; ++i) {
      Sequence& sequence = sequences_[i];
      sequence.tokens.push_back(7);
      sequence.drafts = drafts[i];
      const auto count = static_cast<std::int64_t>(drafts[i].size());
      batch.push_back({&sequence, sequence.computed, 1 + count, true, count});
    }
    replay_.keep(batch);
    (void)runner_->run(batch);
    for (int i = 0; i < 2; ++i) {
      Sequence& sequence = sequences_[i];
      sequence.computed += 1 + right[i];
      sequence.tokens.insert(sequence.tokens.end(), drafts[i].begin(), drafts[i].begin() + right[i]);
    }
    replay_.take_back(batch);
    for (Sequence& sequence : sequences_) sequence.drafts.clear();
  }

  // The same tokens, one by one.
  void go_on(const std::vector<std::int32_t> (&drafts)[2], const std::int64_t (&right)[2]) {
    for (int i = 0; i < 2; ++i) {
      std::vector<std::int32_t> tokens = {7};
      tokens.insert(tokens.end(), drafts[i].begin(), drafts[i].begin() + right[i]);
      for (const std::int32_t token : tokens) {
        Sequence& sequence = sequences_[i];
        sequence.tokens.push_back(token);
        compute({{&sequence, sequence.computed, 1, true, 0}});
      }
    }
  }

  // All layers', of both.
  [[nodiscard]] std::vector<std::byte> states() const {
    std::vector<std::byte> all;
    for (const nn::CacheSpec& spec : specs_) {
      for (const nn::StateSpec& state : spec.states) {
        const std::string name = nn::state_name(cache_.capacity().scope, spec.module, state.name);
        std::vector<std::byte> bytes(total_bytes(model_.store->at(name).desc));
        model_.store->download(name, bytes);
        all.insert(all.end(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 3), bytes.end());
      }
    }
    return all;
  }
  [[nodiscard]] std::int64_t replays() const { return replay_.num_replays(); }

 private:
  static constexpr std::int64_t kMostDrafts = 6;
  static nn::Numerics numerics() {
    nn::Numerics numerics;
    numerics.needs = kNeeds;
    return numerics;
  }
  void compute(const Batch& batch) {
    (void)runner_->run(batch);
    for (const ScheduledSequence& part : batch) part.sequence->computed += part.count;
  }

  models::LoadedModel& model_;
  std::vector<nn::CacheSpec> specs_;
  session::Runtime runtime_;
  CacheEngine cache_;
  StateReplay replay_;
  std::optional<ModelRunner> runner_;
  Sequence sequences_[2];
};

// None, some and all of them right, turn by turn: the states are those of tokens that came one by one, to the bit.
TEST(StateReplay, LeavesTheStatesOfStepsWithoutGuesses) {
  const std::vector<std::int32_t> drafts[2] = {{11, 12, 13}, {21, 22}};
  constexpr std::int64_t kRight[][2] = {{0, 0}, {1, 2}, {2, 1}, {3, 2}, {3, 0}, {0, 1}};
  for (const char* name : kFamilies) {
    SCOPED_TRACE(name);
    models::LoadedModel model = tiny_model(name);
    Stepped guessed(model), plain(model);
    ASSERT_EQ(guessed.states(), plain.states());
    for (const auto& right : kRight) {
      guessed.guess(drafts, right);
      plain.go_on(drafts, right);
      ASSERT_EQ(guessed.states(), plain.states()) << right[0] << ", " << right[1];
    }
    EXPECT_EQ(guessed.replays(), 2 + 1 + 2 + 0 + 1 + 2);
  }
}

// A copy for each seat, and nothing where nobody guesses or nothing is kept.
TEST(StateReplay, TakesTheMemoryOfOneCopy) {
  models::LoadedModel model = tiny_model("qwen3.5-untied");
  session::Runtime runtime;
  const auto bytes = [&](std::int64_t guesses) {
    return LLMEngine(model, any_tokenizer(), guessing(guesses), runtime).cache().bytes();
  };
  const std::uint64_t states = 3 * 4 * (3 * 256 + 4 * 32 * 32);  // of a seat
  EXPECT_EQ(bytes(3) - bytes(0), static_cast<std::uint64_t>(guessing(3).max_num_seqs) * states);
  EXPECT_EQ(bytes(1), bytes(3));
}

// Every layer with states says what they're advanced by.
TEST(StateReplay, IsKnownToEveryLayerThatKeepsStates) {
  for (const char* name : kFamilies) {
    SCOPED_TRACE(name);
    const models::LoadedModel model = tiny_model(name);
    std::size_t layers = 0;
    for (const nn::CacheSpec& spec : model.architecture->cache_specs(model.config)) {
      EXPECT_EQ(spec.states.empty(), spec.replays.empty());
      EXPECT_EQ(spec.states.empty(), spec.replay == nullptr);
      layers += spec.states.empty() ? 0 : 1;
    }
    EXPECT_GT(layers, 0U);
  }
}

}  // namespace
}  // namespace tern::engine
