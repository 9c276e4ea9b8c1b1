// If these fail, a draft model changes answers, guesses from what it lost or never had, goes on being asked where it's
// no use, or takes memory that nobody gave it.
#include "engine/draft_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "draft_case.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::engine {
namespace {

EngineOptions draft_engine(const DraftCase& c, models::LoadedModel* draft) {
  EngineOptions options = guessing_engine(c);
  options.draft = draft;
  if (draft != nullptr) options.speculation.num_speculative_tokens = c.guesses;
  return options;
}

DraftOutcome draft_answers(const DraftCase& c, models::LoadedModel& model, models::LoadedModel* draft) {
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), draft_engine(c, draft), runtime);
  return run_case(engine, c);
}

// The model itself, with the numbers that it will be drawn with: every guess is right, drawn or greedy.
TEST(DraftModel, OfTheSameWeightsIsAlwaysRight) {
  models::LoadedModel model = tiny_model();
  for (const float temperature : {0.0F, 0.8F}) {
    for (const bool penalties : {false, true}) {
      SCOPED_TRACE(temperature);
      SCOPED_TRACE(penalties);
      const DraftCase c = {.temperature = temperature, .penalties = penalties};
      const DraftOutcome plain = draft_answers(c, model, nullptr);
      const DraftOutcome guessed = draft_answers(c, model, &model);
      expect_same_answers(guessed, plain);
      EXPECT_EQ(plain.guesses.checked, 0);
      EXPECT_EQ(guessed.guesses.right, guessed.guesses.checked);
      EXPECT_GT(guessed.guesses.right, 150);
      EXPECT_LT(guessed.steps, plain.steps * 2 / 3);
    }
  }
}

// A lightly quantised copy is right often, and another model hardly ever.
TEST(DraftModel, ChangesNoTokenWhateverItGuesses) {
  models::LoadedModel model = tiny_model();
  models::LoadedModel near = tiny_model("llama-tied", TERN_BF16);
  models::LoadedModel other = tiny_model("llama-untied");
  ASSERT_EQ(other.config.vocab_size, model.config.vocab_size);
  for (const float temperature : {0.0F, 0.8F}) {
    const DraftCase c = {.temperature = temperature};
    const DraftOutcome plain = draft_answers(c, model, nullptr);
    for (models::LoadedModel* draft : {&near, &other}) {
      SCOPED_TRACE(draft == &near ? "near" : "other");
      const DraftOutcome guessed = draft_answers(c, model, draft);
      expect_same_answers(guessed, plain);
      EXPECT_GT(guessed.guesses.checked, 0);
      if (draft == &other) {
        EXPECT_LT(guessed.guesses.right, guessed.guesses.checked);
      }
    }
  }
}

// Where several wait for each step a guess costs more than a sequence has at first: it's granted some.
TEST(DraftModel, IsAskedFromTheFirstTokenOn) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), draft_engine({}, &model), runtime);
  for (std::int32_t i = 0; i < 3; ++i) ASSERT_TRUE(engine.add_request(prompt_of(i, 5), greedy(20)).ok());
  for (int step = 0; step < 3; ++step) (void)engine.step();
  EXPECT_EQ(engine.guesses().drafts, 6) << "of three sequences, in the second and the third step";
  EXPECT_EQ(engine.guesses().right, engine.guesses().checked);
}

// Guesses of another model stop being made, and so does computing what they are made of.
TEST(DraftModel, ThatIsNoUseIsHardlyAsked) {
  models::LoadedModel model = tiny_model();
  models::LoadedModel other = tiny_model("llama-untied");
  const DraftOutcome guessed = draft_answers({.new_tokens = 90}, model, &other);
  std::int64_t tokens = 0;
  for (const auto& [id, drawn] : guessed.drawn.tokens) tokens += static_cast<std::int64_t>(drawn.size());
  EXPECT_GT(tokens, 6 * 80);
  EXPECT_LT(guessed.guesses.checked - guessed.guesses.right, tokens / 10);
}

// A step of it costs as much as one of the model: even the right guesses of a perfect one earn nothing.
TEST(DraftModel, ThatCostsTooMuchIsHardlyAsked) {
  models::LoadedModel model = tiny_model();
  const DraftOutcome guessed = draft_answers({.step_cost = 0, .new_tokens = 90}, model, &model);
  EXPECT_LT(guessed.guesses.checked, 40);
}

TEST(DraftModel, InACacheThatHoldsFewSequences) {
  models::LoadedModel model = tiny_model();
  bool caches = false;
  for (const std::uint64_t swap_space : {0U, 0U, 1U << 20U}) {
    const bool caches_prefixes = std::exchange(caches, true);
    SCOPED_TRACE(testing::Message() << caches_prefixes << ", " << swap_space);
    DraftCase c = {.temperature = 0.8F, .caches_prefixes = caches_prefixes, .swap_space = swap_space};
    const DraftOutcome plain = draft_answers(c, model, nullptr);
    c.memory = plain.cache_bytes;  // for two caches now
    const DraftOutcome guessed = draft_answers(c, model, &model);
    EXPECT_LT(guessed.cache_bytes, plain.cache_bytes * 6 / 10) << "the draft's is beside it";
    EXPECT_GT(guessed.preemptions, 0);
    expect_same_answers(guessed, plain);
    EXPECT_EQ(guessed.guesses.right, guessed.guesses.checked) << "it guessed from what it had lost";
    EXPECT_GT(guessed.guesses.right, 50);
  }
}

// Who begins behind blocks that others computed does so in the draft's cache, too, as far as they were computed there.
TEST(DraftModel, BeginsBehindFoundBlocks) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), draft_engine({.caches_prefixes = true}, &model), runtime);
  const auto computed_for = [&](const std::vector<std::int32_t>& prompt) {
    const std::int64_t before = engine.draft_tokens();
    EXPECT_TRUE(engine.add_request(prompt, greedy(12)).ok());
    Drawn drawn;
    drawn.run(engine);
    EXPECT_EQ(engine.guesses().right, engine.guesses().checked);
    return engine.draft_tokens() - before;
  };
  const std::int64_t block = engine.cache().block_size();
  const auto prompt = prompt_of(5, static_cast<std::int32_t>(5 * block + 3));
  EXPECT_GE(computed_for(prompt), 5 * block + 3);
  EXPECT_LT(computed_for(prompt), block + 3 + 12) << "it computed the prompt once more";
  auto other = prompt;
  other[static_cast<std::size_t>(3 * block + 1)] = 9;
  EXPECT_GE(computed_for(other), 2 * block + 3) << "it took another text's keys for its own";
  EXPECT_LT(computed_for(prompt), block + 3 + 12);
}

// What a draft computed of a block is lost where guesses or other tokens were written over it.
TEST(DraftModel, KnowsWhichBlocksHoldWhat) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  EngineOptions options = draft_engine({.caches_prefixes = true}, &model);
  options.max_num_seqs = 1;
  options.kv_cache_memory = 180'000;  // for one sequence and a few blocks
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  for (std::int32_t turn = 0; turn < 12; ++turn) {
    SCOPED_TRACE(turn);
    EXPECT_TRUE(engine.add_request(prompt_of(turn % 2, 50 + turn), greedy(20)).ok());
    Drawn drawn;
    drawn.run(engine);
    ASSERT_EQ(engine.guesses().right, engine.guesses().checked);
  }
  EXPECT_GT(engine.guesses().right, 100);
  EXPECT_GT(engine.cache_statistics().hit_tokens, 0);
}

// Blocks that were given out to others and found again hold what the draft computed last, or are computed again.
TEST(DraftModel, SurvivesThatWeightsChangeAndBlocksAreForgotten) {
  models::LoadedModel model = tiny_model();
  const DraftCase c = {.caches_prefixes = true};
  const DraftOutcome plain = draft_answers(c, model, nullptr);
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), draft_engine(c, &model), runtime);
  Drawn drawn;
  for (std::int32_t i = 0; i < 6; ++i) {
    SamplingParams params = greedy(c.new_tokens + i);
    params.top_k = 20;
    params.request = static_cast<std::uint64_t>(i);
    ASSERT_TRUE(engine.add_request(draft_prompt(i), params).ok());
  }
  for (int step = 0; !engine.idle(); ++step) {
    if (step % 9 == 8) engine.forget_computed();
    drawn.step(engine);
  }
  EXPECT_EQ(drawn.tokens, plain.drawn.tokens);
  EXPECT_EQ(engine.guesses().right, engine.guesses().checked);
  EXPECT_GT(engine.guesses().right, 15);
}

TEST(DraftModel, GoesOnAfterOthersWereAborted) {
  models::LoadedModel model = tiny_model();
  const DraftCase c = {};
  const DraftOutcome plain = draft_answers(c, model, nullptr);
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), draft_engine(c, &model), runtime);
  Drawn drawn;
  for (std::int32_t i = 0; i < 6; ++i) {
    SamplingParams params = greedy(c.new_tokens + i);
    params.top_k = 20;
    params.request = static_cast<std::uint64_t>(i);
    ASSERT_TRUE(engine.add_request(draft_prompt(i), params).ok());
  }
  for (int step = 0; !engine.idle(); ++step) {
    if (step == 4) engine.abort(3);
    if (step == 9) engine.abort(0);
    drawn.step(engine);
  }
  for (const SequenceId id : {1, 2, 4, 5}) EXPECT_EQ(drawn.tokens.at(id), plain.drawn.tokens.at(id)) << id;
  EXPECT_EQ(engine.guesses().right, engine.guesses().checked);
  EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
}

// Behind its last position a draft model guesses nothing, and the model goes on alone.
TEST(DraftModel, WithAShorterContext) {
  models::LoadedModel model = tiny_model();
  models::LoadedModel draft = tiny_model();
  draft.config.max_position_embeddings = 70;
  const DraftOutcome plain = draft_answers({}, model, nullptr);
  const DraftOutcome guessed = draft_answers({}, model, &draft);
  expect_same_answers(guessed, plain);
  EXPECT_EQ(guessed.guesses.right, guessed.guesses.checked);
  EXPECT_GT(guessed.guesses.right, 20);
  const DraftOutcome longer = draft_answers({}, model, &model);
  EXPECT_LT(guessed.guesses.right, longer.guesses.right);
}

TEST(DraftModel, CountsItsGuessesByPlace) {
  models::LoadedModel model = tiny_model();
  const DraftOutcome guessed = draft_answers({}, model, &model);
  const Guesses& guesses = guessed.guesses;
  ASSERT_EQ(guesses.right_at.size(), 5U);
  EXPECT_EQ(guesses.right_at[0], guesses.drafts) << "every run was right from its first guess on";
  std::int64_t sum = 0;
  for (const std::int64_t right : guesses.right_at) sum += right;
  EXPECT_EQ(sum, guesses.right);
  EXPECT_GT(guesses.right_at[2], 0);
}

// Its keys and values fit into what the flags give both, or the run says what is missing.
TEST(DraftModel, SharesTheMemoryOfTheCache) {
  models::LoadedModel model = tiny_model();
  session::Runtime runtime;
  EngineOptions options = draft_engine({}, &model);
  const auto bytes_of = [&](const EngineOptions& some) {
    return LLMEngine(model, any_tokenizer(), some, runtime).cache().bytes();
  };
  options.kv_cache_memory = 200'000;
  const std::uint64_t both = bytes_of(options);
  options.draft = nullptr;
  const std::uint64_t alone = bytes_of(options);
  EXPECT_LE(2 * both, 200'000U + alone / 20);
  EXPECT_GT(2 * both, alone * 9 / 10);
}

// On every kind of device: what is simulated has other layouts, block sizes and orders of streams.
TEST(DraftModel, OnEveryPersonality) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const test::SimEnvironment environment(test::Environment{{"TERN_SIM", personality}});
    const auto device = accel::Device::open(test::load_plugin("sim"), 0).value();
    auto model = tiny_model_on(device);
    auto other = tiny_model_on(device, "mistral");
    DraftCase c = {.temperature = 0.8F, .new_tokens = 12};
    const auto generate = [&](models::LoadedModel* draft) {
      session::Runtime runtime;
      EngineOptions options = draft_engine(c, draft);
      options.numerics.needs = options.draft_numerics.needs = 0;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      return run_case(engine, c);
    };
    const DraftOutcome plain = generate(nullptr);
    const DraftOutcome same = generate(&model);
    EXPECT_EQ(same.drawn.tokens, plain.drawn.tokens);
    EXPECT_EQ(same.guesses.right, same.guesses.checked);
    EXPECT_GT(same.guesses.right, 10);
    EXPECT_EQ(generate(&other).drawn.tokens, plain.drawn.tokens);
  }
}

// One draft model, asked for guesses of sequences whose blocks are told.
struct AskedAlone {
  models::LoadedModel model = tiny_model("llama-untied");
  session::Runtime runtime;
  CacheEngine cache{
      model.store, model.architecture->cache_specs(model.config), {.max_model_len = 140, .max_num_seqs = 2}};
  Scheduler scheduler{{2, 64, 0}, cache.pool()};
  DraftModel draft{model, model, cache, TERN_F32, scheduler, {2, 64, {}, 0.01}, runtime};

  std::vector<std::int32_t> guesses(Sequence& sequence, std::int64_t most) {
    sequence.computed = sequence.length() - 1;
    sequence.drafts.clear();
    const DraftWish wish{&sequence, true, most};
    draft.propose(std::span(&wish, 1), 1);
    return sequence.drafts;
  }
};

Sequence sequence_in(std::vector<std::int32_t> tokens, std::vector<std::int32_t> blocks) {
  Sequence sequence;
  sequence.prompt_length = static_cast<std::int64_t>(tokens.size());
  sequence.tokens = std::move(tokens);
  sequence.blocks = std::move(blocks);
  sequence.seat = 1;
  sequence.params = greedy(100);
  sequence.hashes = PrefixHashes(prefix_root("", ""), {}, 8);
  return sequence;
}

// What was guessed wrongly is forgotten: the next guesses are those of one who never made them.
TEST(DraftModel, TakesWrongGuessesBack) {
  AskedAlone asked;
  Sequence sequence = sequence_in(prompt_of(3, 20), {1, 2, 3, 4});
  for (int turn = 0; turn < 6; ++turn) {
    SCOPED_TRACE(turn);
    const auto guessed = asked.guesses(sequence, 4);
    ASSERT_EQ(guessed.size(), 4U);
    AskedAlone other;
    Sequence same = sequence_in(sequence.tokens, {1, 2, 3, 4});
    EXPECT_EQ(other.guesses(same, 4), guessed);
    for (int right = 0; right < turn % 3; ++right) sequence.tokens.push_back(guessed[static_cast<std::size_t>(right)]);
    sequence.tokens.push_back((guessed[static_cast<std::size_t>(turn % 3)] + 1 + 7 * turn) % 150);
  }
}

// A block that another text was begun in holds no more what stood there.
TEST(DraftModel, TrustsNoBlockThatWasWrittenSince) {
  AskedAlone asked;
  const auto block = static_cast<std::int32_t>(asked.cache.block_size());
  Sequence first = sequence_in(prompt_of(3, 2 * block + 3), {1, 2, 3, 4});
  const auto expected = asked.guesses(first, 4);
  Sequence second = sequence_in(prompt_of(90, block + block / 2), {3, 2, 4});
  (void)asked.guesses(second, 4);
  const std::int64_t before = asked.draft.computed_tokens();
  Sequence again = sequence_in(first.tokens, {1, 2, 3, 4});
  EXPECT_EQ(asked.guesses(again, 4), expected);
  EXPECT_EQ(asked.draft.computed_tokens() - before, block + 3 + 3) << "only its first block was as it had been";
}

TEST(DraftModel, IsRefusedWhereItCannotGuess) {
  const auto config = [](const std::string& name) { return tiny_model(name).config; };
  const auto tokenizer = any_tokenizer();
  EXPECT_TRUE(check_draft_model(config("llama-tied"), tokenizer, tokenizer).ok());
  const Status states = check_draft_model(config("lfm2-tied"), tokenizer, tokenizer);
  ASSERT_FALSE(states.ok());
  EXPECT_EQ(states.error().line().find("the draft model is Lfm2ForCausalLM, whose layer model.layers."), 0U)
      << states.error().line();
  models::ModelConfig bert;
  bert.architecture = "BertModel";
  const Status encoder = check_draft_model(bert, tokenizer, tokenizer);
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().line(),
            "the draft model is BertModel, which goes on with no text; name a smaller model of the same family.");
}

// Guesses are ids: they must be the same words.
TEST(DraftModel, HasTheTokensOfTheModel) {
  const auto read = [](const std::string& name) {
    std::ifstream in(std::filesystem::path(TERN_TEST_DATA) / "tokenizers" / name);
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  const auto refusal = [&](const std::string& json) {
    const auto draft = tokenizer::Tokenizer::from_json(json, "draft.json").value();
    const Status checked = check_draft_model(tiny_model().config, draft, any_tokenizer());
    return checked ? std::string() : checked.error().line();
  };
  std::string json = read("bl-gpt2.json");
  EXPECT_EQ(refusal(json), "");
  const std::string first = R"("!":0,"\"":1,)";
  ASSERT_NE(json.find(first), std::string::npos);
  json.replace(json.find(first), first.size(), R"("!":1,"\"":0,)");
  EXPECT_EQ(refusal(json),
            "the draft model: expected the model's token 0, \"!\", found \"\"\"; name a smaller model of the same "
            "family");
  const std::string other = refusal(read("gemma.json"));
  EXPECT_EQ(
      other.find("the draft model: expected the model's " + std::to_string(any_tokenizer().vocab_size()) + " tokens"),
      0U)
      << other;
}

}  // namespace
}  // namespace tern::engine
