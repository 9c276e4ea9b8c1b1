// If these fail, a head over the model's hidden states changes answers, guesses from states or keys that it lost or
// never had, goes on being asked where it's no use, or takes another model's files.
#include "engine/head_proposer.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>

#include "draft_case.h"
#include "models/eagle3.h"
#include "models/mtp.h"
#include "tests/support/eagle3_head.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::engine {
namespace {

using models::SpeculativeHead;

std::filesystem::path trained_folder() { return std::filesystem::path(TERN_TEST_DATA) / "golden" / "eagle3" / "head"; }

Result<std::unique_ptr<SpeculativeHead>> open_head(const std::filesystem::path& folder,
                                                   const models::ModelConfig& config) {
  return models::open_eagle3(
      std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(folder).value()), config);
}

std::unique_ptr<SpeculativeHead> load_head(const std::filesystem::path& folder, models::LoadedModel& model) {
  auto head = open_head(folder, model.config).value();
  head->load(model, {.max_positions = 160}).value();
  return head;
}

// The layer of prediction of a model's own checkpoint.
std::unique_ptr<SpeculativeHead> load_mtp(models::LoadedModel& model) {
  auto head = models::open_mtp(model.source, model.config).value();
  head->load(model, {.max_positions = 160}).value();
  return head;
}

constexpr const char* kEagle3 = "eagle3";
constexpr const char* kMtp = "mtp-glm4-moe";
constexpr const char* kMtpOverStates = "mtp-qwen3.5";

std::unique_ptr<SpeculativeHead> trained_head(const std::string& name, models::LoadedModel& model) {
  return name == kEagle3 ? load_head(trained_folder(), model) : load_mtp(model);
}

// A model with its head, which was trained to guess the model's own greedy answers to draft_prompt.
struct Trained {
  explicit Trained(const std::string& name) : model(tiny_model(name)), head(trained_head(name, model)) {}
  models::LoadedModel model;
  std::unique_ptr<SpeculativeHead> head;
};

class TrainedHead : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(HeadProposer, TrainedHead, testing::Values(kEagle3, kMtp, kMtpOverStates),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return std::string(name == kEagle3 ? "eagle3" : name == kMtp ? "mtp" : "mtp_over_states");
                         });

// One with weights of chance, for any model.
std::unique_ptr<SpeculativeHead> random_head(models::LoadedModel& model, tern::test::Eagle3Shape shape = {}) {
  const tern::test::TempDir scratch;
  shape.hidden = model.config.hidden_size;
  shape.vocab = model.config.vocab_size;
  tern::test::write_eagle3_head(scratch.path(), shape);
  return load_head(scratch.path(), model);
}

EngineOptions head_engine(const DraftCase& c, const SpeculativeHead* head) {
  constexpr std::int64_t kDepth = 4;  // as it was trained
  EngineOptions options = guessing_engine(c);
  options.head = head;
  if (head != nullptr) options.speculation.num_speculative_tokens = kDepth;
  return options;
}

DraftOutcome head_answers(const DraftCase& c, models::LoadedModel& model, const SpeculativeHead* head) {
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), head_engine(c, head), runtime);
  return run_case(engine, c);
}

// The share of guesses that were right.
double share(const Guesses& guesses) {
  return static_cast<double>(guesses.right) / static_cast<double>(std::max<std::int64_t>(guesses.checked, 1));
}

TEST_P(TrainedHead, IsRight) {
  Trained t(GetParam());
  const DraftOutcome plain = head_answers({}, t.model, nullptr);
  const DraftOutcome guessed = head_answers({}, t.model, t.head.get());
  expect_same_answers(guessed, plain);
  EXPECT_EQ(plain.guesses.checked, 0);
  EXPECT_GT(share(guessed.guesses), 0.97);
  EXPECT_GT(guessed.guesses.right, 150);
  EXPECT_LT(guessed.steps, plain.steps * 2 / 3);
  EXPECT_GT(guessed.guesses.right_at[3], 10) << "from its own states, too";
}

TEST_P(TrainedHead, ChangesNoTokenWhateverItGuesses) {
  Trained t(GetParam());
  const auto other = random_head(t.model);
  for (const float temperature : {0.0F, 0.8F}) {
    for (const bool penalties : {false, true}) {
      const DraftCase c = {.temperature = temperature, .penalties = penalties};
      const DraftOutcome plain = head_answers(c, t.model, nullptr);
      for (const SpeculativeHead* head : {t.head.get(), other.get()}) {
        SCOPED_TRACE(testing::Message() << temperature << ", " << penalties << ", " << (head == other.get()));
        const DraftOutcome guessed = head_answers(c, t.model, head);
        expect_same_answers(guessed, plain);
        EXPECT_GT(guessed.guesses.checked, 0);
        if (head == other.get()) {
          EXPECT_LT(share(guessed.guesses), 0.5);
        }
      }
    }
  }
}

// Whatever the model's layers are and keep, over a cache of another dtype too.
TEST(HeadProposer, OverEveryFamily) {
  for (const char* name :
       {"qwen3-tied", "gemma3-tied", "gemma4-tied", "cohere2-tied", "olmo2-tied", "granite-tied", "glm4-moe-untied",
        "gpt-oss-untied", "deepseek-v3-untied", "llama4-tied",
        // Their layers keep states, from which guesses are taken back.
        "qwen3.5-untied", "qwen3.5-tied", "qwen3.5-moe-untied", "qwen3-next-untied", "qwen3-next-tied", "lfm2-tied",
        "lfm2-moe-untied", "granite-h-untied", "granite-h-tied", "falcon-h1-untied"}) {
    SCOPED_TRACE(name);
    models::LoadedModel model = tiny_model(name);
    const auto layers = model.config.num_hidden_layers;
    const auto head = random_head(model, {.draft_vocab = 80, .layers = {0, layers / 2, layers - 1}});
    const DraftCase c = {.temperature = 0.8F, .new_tokens = 8};
    const DraftOutcome guessed = head_answers(c, model, head.get());
    expect_same_answers(guessed, head_answers(c, model, nullptr));
    EXPECT_GT(guessed.guesses.checked, 0);
  }
  models::LoadedModel model = tiny_model("llama-untied");
  const auto head = random_head(model, {.is_of_speculators = true, .has_words = true});
  session::Runtime runtime;
  DraftOutcome outcomes[2];
  for (const bool guesses : {false, true}) {
    EngineOptions options = head_engine({}, guesses ? head.get() : nullptr);
    options.cache_dtype = TERN_I8;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    outcomes[guesses ? 1 : 0] = run_case(engine, {});
  }
  expect_same_answers(outcomes[1], outcomes[0]);
}

// A layer of prediction keeps what the model's layers keep: latent vectors, and what an indexer chooses by.
TEST(HeadProposer, KeepsWhatTheModelsLayersKeep) {
  for (const char* name : {"mtp-deepseek-v3", "mtp-deepseek-v32", "mtp-qwen3.5-moe", "mtp-qwen3-next"}) {
    models::LoadedModel model = tiny_model(name);
    const auto head = load_mtp(model);
    for (const float temperature : {0.0F, 0.8F}) {
      SCOPED_TRACE(testing::Message() << name << ", " << temperature);
      DraftCase c = {.temperature = temperature, .caches_prefixes = true, .new_tokens = 30};
      const DraftOutcome plain = head_answers(c, model, nullptr);
      c.memory = plain.cache_bytes * 6 / 10;
      const DraftOutcome guessed = head_answers(c, model, head.get());
      EXPECT_GT(guessed.preemptions, 0);
      expect_same_answers(guessed, plain);
      EXPECT_GT(guessed.guesses.checked, 0);
    }
  }
}

// Guesses that hardly ever are right stop being made.
TEST(HeadProposer, ThatIsNoUseIsHardlyAsked) {
  Trained t(kEagle3);
  const auto other = random_head(t.model);
  const DraftOutcome guessed = head_answers({.new_tokens = 90}, t.model, other.get());
  EXPECT_LT(guessed.guesses.checked - guessed.guesses.right, 6 * 90 / 10);
}

// Thrown out, come back from found blocks or from the host: its keys are where the model's are.
TEST_P(TrainedHead, InACacheThatHoldsFewSequences) {
  Trained t(GetParam());
  bool caches = false;
  for (const std::uint64_t swap_space : {0U, 0U, 1U << 20U}) {
    const bool caches_prefixes = std::exchange(caches, true);
    SCOPED_TRACE(testing::Message() << caches_prefixes << ", " << swap_space);
    DraftCase c = {.caches_prefixes = caches_prefixes, .swap_space = swap_space};
    const DraftOutcome plain = head_answers(c, t.model, nullptr);
    constexpr std::uint64_t kStatesAndOneSequence = 230'000;
    c.memory = GetParam() == std::string(kMtpOverStates) ? kStatesAndOneSequence : plain.cache_bytes * 6 / 10;
    const DraftOutcome guessed = head_answers(c, t.model, t.head.get());
    EXPECT_GT(guessed.preemptions, 0);
    expect_same_answers(guessed, plain);
    EXPECT_GT(share(guessed.guesses), 0.97) << "it guessed from what it had lost";
    EXPECT_GT(guessed.guesses.right, 100);
  }
}

// Its layer's keys of a prompt that others computed are found with the model's.
TEST_P(TrainedHead, BeginsBehindFoundBlocks) {
  Trained t(GetParam());
  session::Runtime runtime;
  LLMEngine engine(t.model, any_tokenizer(), head_engine({.caches_prefixes = true}, t.head.get()), runtime);
  const std::int64_t block = engine.cache().block_size();
  for (const int turn : {0, 1, 2}) {
    for (std::int32_t i = 0; i < 6; ++i) {
      SCOPED_TRACE(testing::Message() << turn << ", " << i);
      const Guesses before = engine.guesses();
      const std::int64_t computed = engine.draft_tokens();
      const auto prompt = draft_prompt(i);
      ASSERT_TRUE(engine.add_request(prompt, greedy(turn == 0 ? 1 : 40)).ok());
      Drawn drawn;
      drawn.run(engine);
      if (turn == 0) continue;
      Guesses mine;
      mine.checked = engine.guesses().checked - before.checked;
      mine.right = engine.guesses().right - before.right;
      EXPECT_GT(mine.right, 10);
      EXPECT_GT(share(mine), 0.95) << mine.right << " of " << mine.checked;
      EXPECT_LT(engine.draft_tokens() - computed, block + 1 + 2 * 40) << "it computed the prompt once more";
    }
  }
}

// What a block holds of the head hangs on the token behind it: who goes on with another one there doesn't find it.
TEST_P(TrainedHead, FindsNoBlockThatAnotherTokenFollows) {
  Trained t(GetParam());
  session::Runtime runtime;
  for (const SpeculativeHead* const head : std::array<const SpeculativeHead*, 2>{t.head.get(), nullptr}) {
    LLMEngine engine(t.model, any_tokenizer(), head_engine({.caches_prefixes = true}, head), runtime);
    const std::int64_t block = engine.cache().block_size();
    const auto cached = [&](const std::vector<std::int32_t>& prompt) {
      EXPECT_TRUE(engine.add_request(prompt, greedy(2)).ok());
      Drawn drawn;
      drawn.run(engine);
      return drawn.last.begin()->second.cached_tokens;
    };
    const auto prompt = prompt_of(5, static_cast<std::int32_t>(3 * block + 4));
    EXPECT_EQ(cached(prompt), 0);
    EXPECT_EQ(cached(prompt), 3 * block);
    // Where layers keep states, the second that parts from it there finds what the first left.
    const auto cached_of_parting = [&](std::int64_t at) {
      std::int64_t found = 0;
      for (int time = has_states(t.model.architecture->cache_specs(t.model.config)) ? 0 : 1; time < 2; ++time) {
        auto other = prompt;
        other[static_cast<std::size_t>(at)] += 1 + time;
        found = cached(other);
      }
      return found;
    };
    EXPECT_EQ(cached_of_parting(2 * block), head != nullptr ? block : 2 * block);
    EXPECT_EQ(cached_of_parting(2 * block + 1), 2 * block);
  }
}

// Prompts that come together, where one ends with the block that the other waits for.
TEST_P(TrainedHead, ComputesWhatSeveralShareOnce) {
  Trained t(GetParam());
  session::Runtime runtime;
  std::map<SequenceId, std::vector<std::int32_t>> answers[2];
  for (const bool guesses : {false, true}) {
    LLMEngine engine(t.model, any_tokenizer(), head_engine({.caches_prefixes = true}, guesses ? t.head.get() : nullptr),
                     runtime);
    const auto block = static_cast<std::int32_t>(engine.cache().block_size());
    for (const std::int32_t length : {2 * block, 2 * block + 5, 3 * block, 3 * block + 1})
      ASSERT_TRUE(engine.add_request(prompt_of(5, length), greedy(12)).ok());
    Drawn drawn;
    drawn.run(engine);
    answers[guesses ? 1 : 0] = drawn.tokens;
    EXPECT_GT(engine.cache_statistics().hit_tokens, 3 * block);
    EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
  }
  EXPECT_EQ(answers[1], answers[0]);
}

TEST_P(TrainedHead, GoesOnAfterOthersWereAbortedAndWeightsChanged) {
  Trained t(GetParam());
  const DraftOutcome plain = head_answers({}, t.model, nullptr);
  session::Runtime runtime;
  LLMEngine engine(t.model, any_tokenizer(), head_engine({.caches_prefixes = true}, t.head.get()), runtime);
  Drawn drawn;
  for (std::int32_t i = 0; i < 6; ++i) {
    SamplingParams params = greedy(60 + i);
    params.top_k = 20;
    params.request = static_cast<std::uint64_t>(i);
    ASSERT_TRUE(engine.add_request(draft_prompt(i), params).ok());
  }
  for (int step = 0; !engine.idle(); ++step) {
    if (step == 6) engine.abort(3);
    if (step == 9) engine.forget_computed();
    if (step == 14) engine.abort(0);
    drawn.step(engine);
  }
  for (const SequenceId id : {1, 2, 4, 5}) EXPECT_EQ(drawn.tokens.at(id), plain.drawn.tokens.at(id)) << id;
  EXPECT_GT(share(engine.guesses()), 0.97);
  EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
}

// Its keys and values fit into what the flags give the cache.
TEST(HeadProposer, SharesTheMemoryOfTheCache) {
  Trained t(kEagle3);
  session::Runtime runtime;
  DraftCase c;
  c.memory = 900'000;
  const auto cache = [&](const SpeculativeHead* head) {
    const LLMEngine engine(t.model, any_tokenizer(), head_engine(c, head), runtime);
    return std::pair(engine.cache().bytes(), engine.cache().num_blocks());
  };
  const auto [both_bytes, both_blocks] = cache(t.head.get());
  const auto [alone_bytes, alone_blocks] = cache(nullptr);
  EXPECT_LE(both_bytes, c.memory);
  EXPECT_LE(alone_bytes, c.memory);
  EXPECT_LT(both_blocks, alone_blocks) << "a layer of 8 costs nothing";
  EXPECT_GT(both_blocks, alone_blocks * 8 / 10);
}

// On every kind of device: what is simulated has other layouts, block sizes and orders of streams.
TEST_P(TrainedHead, OnEveryPersonality) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const tern::test::SimEnvironment environment(tern::test::Environment{{"TERN_SIM", personality}});
    const auto device = accel::Device::open(tern::test::load_plugin("sim"), 0).value();
    auto model = tiny_model_on(device, GetParam());
    const auto head = trained_head(GetParam(), model);
    const DraftCase c = {.new_tokens = 12};
    const auto generate = [&](const SpeculativeHead* some) {
      session::Runtime runtime;
      EngineOptions options = head_engine(c, some);
      options.numerics.needs = 0;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      return run_case(engine, c);
    };
    const DraftOutcome guessed = generate(head.get());
    EXPECT_EQ(guessed.drawn.tokens, generate(nullptr).drawn.tokens);
    EXPECT_GT(share(guessed.guesses), 0.9);
    EXPECT_GT(guessed.guesses.right, 10);
  }
}

// --- Files of heads -----------------------------------------------------------------------------------------------

class Eagle3Files : public testing::Test {
 protected:
  [[nodiscard]] std::string refusal(const tern::test::Eagle3Shape& shape, const std::string& from = "",
                                    const std::string& to = "") {
    tern::test::write_eagle3_head(scratch_.path(), shape);
    std::string config = scratch_.read("config.json");
    if (!from.empty()) {
      const std::size_t at = config.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      config.replace(at, from.size(), to);
      scratch_.write("config.json", config);
    }
    auto head = open_head(scratch_.path(), model_.config);
    if (!head) return scratch_.line(head.error());
    const Status loaded = (*head)->load(model_, {.max_positions = 64});
    return loaded ? "" : scratch_.line(loaded.error());
  }

  tern::test::TempDir scratch_;
  models::LoadedModel model_ = tiny_model("eagle3");
};

TEST_F(Eagle3Files, NumberLayersByWhatTheyGiveOrRead) {
  const tern::test::Eagle3Shape specforge{.layers = {1, 3, 6}};
  tern::test::write_eagle3_head(scratch_.path(), specforge);
  EXPECT_EQ(open_head(scratch_.path(), model_.config).value()->streams(), (std::vector<std::int64_t>{2, 4, 7}));
  tern::test::write_eagle3_head(scratch_.path(), {.layers = {1, 3, 6}, .is_of_speculators = true});
  EXPECT_EQ(open_head(scratch_.path(), model_.config).value()->streams(), (std::vector<std::int64_t>{2, 4, 7}));
  EXPECT_EQ(
      refusal({.layers = {1, 3, 7}}),
      "DIR/config.json: field \"eagle_config.eagle_aux_hidden_state_layer_ids\": expected layers of a model of 7, "
      "found [1,3,7]; take a head that was trained for this model");
}

TEST_F(Eagle3Files, OfOtherModelsAreRefused) {
  EXPECT_EQ(
      refusal({.hidden = 64}),
      "DIR/config.json: field \"hidden_size\": expected the model's hidden size, 32, found 64; take a head that was "
      "trained for this model");
  EXPECT_EQ(
      refusal({.vocab = 200}),
      "DIR/config.json: field \"vocab_size\": expected the model's vocabulary, 160, found 200; take a head that was "
      "trained for this model");
  EXPECT_EQ(refusal({}, R"("architectures":["LlamaForCausalLMEagle3"])", R"("architectures":["LlamaForCausalLM"])"), "")
      << "SafeAILab's own say so, and have draft_vocab_size";
  EXPECT_EQ(refusal({}, R"("num_hidden_layers":1)", R"("num_hidden_layers":2)"),
            "DIR/config.json: field \"num_hidden_layers\": expected 1 layer, found 2; take a head that was trained for "
            "this model");
  EXPECT_EQ(
      refusal({}, R"("use_cache":true)", R"("fc_norm":true)"),
      "DIR/config.json: field \"fc_norm\": expected only fields that an EAGLE-3 head has, found true; if the field "
      "changes no number, remove it from config.json; else choose another model");
}

TEST_F(Eagle3Files, OfADraftModelAreRefused) {
  const auto head = open_head(std::filesystem::path(TERN_TEST_DATA) / "golden" / "llama-tied", model_.config);
  ASSERT_FALSE(head.ok());
  const std::string line = head.error().line();
  EXPECT_NE(
      line.find("llama-tied/config.json: expected the head of EAGLE-3, with draft_vocab_size or a class of Eagle3, "
                "found that of LlamaForCausalLM; name a head's folder, or leave \"method\" out for a draft model"),
      std::string::npos)
      << line;
}

TEST_F(Eagle3Files, SayWhichTokensTheirVocabularyHas) {
  EXPECT_EQ(refusal({.draft_vocab = 80}), "");
  EXPECT_EQ(
      refusal({}, R"("draft_vocab_size":160)", R"("draft_vocab_size":80)"),
      "DIR: tensor d2t: expected which of the model's 160 tokens the head's 80 are, found no such tensor; take the "
      "head's weights from its repository again");
  EXPECT_EQ(
      refusal({.draft_vocab = 81}),
      "DIR: tensor d2t[80]: expected a token of the model's 160, found 160; take a head that was trained for this "
      "model");
}

TEST_F(Eagle3Files, SayWhichLayersTheyRead) {
  EXPECT_EQ(
      refusal({}, R"("use_aux_hidden_state":true)", R"("use_aux_hidden_state":false)"),
      "DIR/config.json: field \"eagle_config.use_aux_hidden_state\": expected true: EAGLE-3 reads streams of three "
      "layers, found false; take a head that was trained for this model");
  tern::test::write_eagle3_head(scratch_.path(), {.hidden = 64, .layers = {}});
  const auto head = open_head(scratch_.path(), tiny_model("llama-tied").config);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(scratch_.line(head.error()),
            "DIR/config.json: field \"eagle_aux_hidden_state_layer_ids\": expected layers of a model of 2, found none; "
            "take a head that was trained for this model");
}

TEST_F(Eagle3Files, LackNoTensor) {
  EXPECT_EQ(
      refusal({.hidden = 64}, R"("hidden_size":64)", R"("hidden_size":64,"target_hidden_size":32)"),
      "DIR: expected embed_tokens.weight, as the head isn't of the model's size, found no such tensor; take a head "
      "that was trained for this model");
  EXPECT_EQ(
      refusal({.draft_vocab = 80}, R"("draft_vocab_size":80)", R"("draft_vocab_size":60)"),
      "DIR: tensor d2t: expected [60], as draft_vocab_size says, found i64[80]; take the head's config.json from its "
      "repository again");
  tern::test::write_eagle3_head(scratch_.path(), {});
  scratch_.remove("config.json");
  const auto head = open_head(scratch_.path(), model_.config);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(scratch_.line(head.error()),
            "DIR/config.json: expected the configuration of an EAGLE-3 head, found no such file; name a head's folder");
  EXPECT_EQ(
      refusal({}, R"("intermediate_size":48)", R"("intermediate_size":64)"),
      "DIR: tensor midlayer.mlp.gate_proj.weight: expected the shape [64, 32], found [48, 32]; config.json and the "
      "weights belong to different models");
}

}  // namespace
}  // namespace tern::engine
