// The LLM on a tiny model with random weights: laws that hold whatever they are.
#include "engine/llm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/strings.h"
#include "engine/answer_stream.h"
#include "io/mapped_file.h"
#include "session/beside.h"
#include "session/save_model.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::engine {
namespace {

class OverATinyModel : public ::testing::Test {
 protected:
  OverATinyModel() {
    setenv("TERN_HOME", (dir_ / "home").c_str(), 1);
    e2e::write_tiny_model(dir_ / "model");
  }
  ~OverATinyModel() override { unsetenv("TERN_HOME"); }

  // A session and the LLM over it.
  struct Opened {
    std::unique_ptr<session::Session> session;
    std::unique_ptr<LLM> llm;
    LLM* operator->() const { return llm.get(); }
  };
  [[nodiscard]] Result<Opened> try_open(const LLMOptions& options = {}) const {
    return catching([&] {
      session::SessionOptions session;
      session.model = (dir_ / model_).string();
      session.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
      session.dtype = TERN_F32;
      session.int8 = int8_;
      Opened opened;
      opened.session = session::open_session(session).value();
      opened.llm = LLM::open(*opened.session, options).value();
      return opened;
    });
  }
  [[nodiscard]] Opened open(const LLMOptions& options = {}) const { return try_open(options).value(); }
  [[nodiscard]] static LLMOptions seats(std::int64_t count) {
    LLMOptions options;
    options.engine.max_num_seqs = count;
    return options;
  }
  [[nodiscard]] static SamplingParams tokens(std::int64_t most) {
    SamplingParams sampling;
    sampling.max_new_tokens = most;
    return sampling;
  }
  [[nodiscard]] static std::vector<Dialogue> questions(std::size_t count) {
    std::vector<Dialogue> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back({{"user", std::string(i * 7, 'a') + "?"}});
    return out;
  }
  [[nodiscard]] static Dialogue too_long() { return {{"user", std::string(600, 'x')}}; }

  void expect_no_bit_changes() const {
    LLMOptions together = seats(3);
    together.batch_invariant = true;
    together.engine.max_num_batched_tokens = 24;
    LLMOptions alone = seats(1);
    alone.batch_invariant = true;
    const auto all = questions(5);
    const auto many = open(together)->chat(all, tokens(9), {});
    const auto one = open(alone);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Answer answer = one->chat(all[i], tokens(9));
      ASSERT_EQ(many[i].tokens.size(), answer.tokens.size());
      for (std::size_t t = 0; t < answer.tokens.size(); ++t) {
        EXPECT_EQ(many[i].tokens[t].id, answer.tokens[t].id) << i << ", " << t;
        EXPECT_EQ(many[i].tokens[t].logprob, answer.tokens[t].logprob) << i << ", " << t;
      }
    }
  }

  test::TempDir dir_;
  std::string model_ = "model";
  bool int8_ = false;  // activations are rounded
};

// A second model on the same device guesses, goes to sleep and wakes with the first.
TEST_F(OverATinyModel, ADraftModelGuessesBeforeAndAfterSleep) {
  session::SessionOptions opening;
  opening.model = (dir_ / "model").string();
  opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
  opening.dtype = TERN_F32;
  const auto session = session::open_session(opening).value();
  LLMOptions options = seats(2);
  options.batch_invariant = true;
  const auto answers_of = [&](LLM& llm) {
    std::vector<std::string> texts;
    for (const Answer& answer : llm.chat(questions(3), tokens(40))) texts.push_back(answer.text);
    return texts;
  };
  const auto plain = LLM::open(*session, options).value();
  const auto expected = answers_of(*plain);
  plain->drop_engine();
  options.draft = session::open_beside(*session, opening).value();
  EXPECT_EQ(options.draft->runtime, nullptr) << "one device is enough";
  options.engine.speculation.num_speculative_tokens = 4;
  options.engine.speculation.draft_step_cost = 0.1;
  const auto guessing = LLM::open(*session, options).value();
  EXPECT_EQ(answers_of(*guessing), expected);
  EXPECT_GT(guessing->engine().guesses().right, 10);
  guessing->sleep();
  EXPECT_EQ(options.draft->model.store, nullptr) << "its weights are still held";
  EXPECT_EQ(answers_of(*guessing), expected);
  EXPECT_GT(guessing->engine().guesses().right, 10);
}

TEST_F(OverATinyModel, DialoguesAnsweredTogetherEqualDialoguesAnsweredAlone) {
  const auto all = questions(5);
  const auto few = open(seats(2));
  std::vector<std::string> told(all.size());
  std::vector<std::size_t> order;
  AnswerCallbacks callbacks;
  callbacks.on_text = [&](std::size_t index, std::string_view text) { told[index] += text; };
  callbacks.on_answer = [&](std::size_t index, Answer&&) { order.push_back(index); };
  const auto together = few->chat(all, tokens(9), callbacks);
  ASSERT_EQ(together.size(), 5U);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  const auto one = open();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Answer alone = one->chat(all[i], tokens(9));
    EXPECT_EQ(together[i].text, alone.text);
    EXPECT_EQ(together[i].text, told[i]);
    EXPECT_EQ(together[i].tokens.size(), 9U);
    EXPECT_EQ(together[i].reason, FinishReason::length);
    const auto ids = one->encode(all[i]).value();
    EXPECT_EQ(together[i].prompt_tokens, static_cast<std::int64_t>(ids.size()));
    const std::vector<Prompt> prompts = {ids};
    EXPECT_EQ(one->generate(prompts, tokens(9))[0].text, alone.text) << "ids are the prompt as they are";
  }
}

// To the last bit: log-probabilities too, of prompts in chunks beside decodes. Of quantised weights as well, which
// steps of few tokens would else multiply otherwise than those of many.
TEST_F(OverATinyModel, ABatchChangesNoBitWhereThatIsAsked) {
  expect_no_bit_changes();
  ASSERT_TRUE(session::convert_model(dir_ / "model", dir_ / "small.gguf", {.outtype = "q8_0"}).ok());
  model_ = "small.gguf";
  expect_no_bit_changes();
  const auto usual = open()->chat(questions(3)[2], tokens(9));
  LLMOptions alike;
  alike.batch_invariant = true;
  const auto invariant = open(alike)->chat(questions(3)[2], tokens(9));
  EXPECT_NE(usual.tokens[0].logprob, invariant.tokens[0].logprob) << "nothing is computed in x15";
  int8_ = true;
  expect_no_bit_changes();
}

TEST_F(OverATinyModel, ADialogueIsWhatTheTemplateMakesOfIt) {
  const auto templated = open();
  const Dialogue dialogue = {{"system", "s"}, {"user", "u"}};
  const auto& tokenizer = templated.session->text->tokenizer;
  const auto ids = templated->encode(std::vector<Dialogue>{dialogue});
  EXPECT_EQ(tokenizer.decode(*ids[0], false),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n"
            "<|im_start|>assistant\n");
  LLMOptions plain;
  plain.use_chat_template = false;
  EXPECT_EQ(tokenizer.decode(*open(plain)->encode(dialogue), false), "su");
  dir_.write("model/chat_template.jinja", "{{ raise_exception('not today') }}");
  EXPECT_NE(open()->encode(dialogue).error().line().find("not today"), std::string::npos);
  plain.template_kwargs = "[1]";
  EXPECT_EQ(try_open(plain).error().line(),
            "the template variables are a JSON array, not an object; write them as {\"enable_thinking\": false}.");
}

TEST_F(OverATinyModel, WhatIsWrongWithOnePromptIsItsOwnError) {
  const auto llm = open(seats(2));
  const std::vector<Dialogue> mixed = {questions(1)[0], too_long(), questions(2)[1]};
  const auto answers = llm->chat(mixed, tokens(3));
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_FALSE(answers[0].error);
  EXPECT_EQ(answers[1].error->line(),
            "prompt: expected fewer than 512 tokens, found 619 tokens; shorten it or raise --max_model_len");
  EXPECT_EQ(answers[1].text, "");
  EXPECT_EQ(answers[2].text, llm->chat(mixed[2], tokens(3)).text);
}

TEST_F(OverATinyModel, WhoStopsGetsWhatThereIsAndMayAskAgain) {
  const auto llm = open(seats(2));
  AnswerCallbacks callbacks;
  int steps = 0;
  callbacks.stopped = [&] { return ++steps > 4; };
  const auto answers = llm->chat(questions(5), tokens(400), callbacks);
  ASSERT_EQ(answers.size(), 5U);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.reason, FinishReason::aborted);
    EXPECT_LT(answer.tokens.size(), 8U);
  }
  EXPECT_EQ(llm->chat(questions(1)[0], tokens(6)).text, open()->chat(questions(1)[0], tokens(6)).text);
}

// A row is drawn by its number: the same question again gets another answer, the same call again the same ones.
TEST_F(OverATinyModel, EqualDialoguesDrawAnswersOfTheirOwn) {
  const auto llm = open(seats(2));
  const std::vector<Dialogue> equal(3, questions(1)[0]);
  SamplingParams sampling = tokens(24);
  sampling.temperature = 1;
  const auto answers = llm->chat(equal, sampling);
  EXPECT_NE(answers[0].text, answers[1].text);
  EXPECT_NE(answers[1].text, answers[2].text);
  const auto again = open()->chat(equal, sampling);
  for (std::size_t i = 0; i < equal.size(); ++i) EXPECT_EQ(again[i].text, answers[i].text);
  sampling.request = 2;
  EXPECT_EQ(llm->chat(equal[0], sampling).text, answers[2].text);
}

TEST_F(OverATinyModel, TwoStreamsAtOnceAreAMistake) {
  const auto llm = open(seats(4));
  AnswerStream first(*llm.llm, tokens(3), {});
  EXPECT_TRUE(first.push(questions(1)[0]));
  EXPECT_THROW(AnswerStream(*llm.llm, tokens(3), {}), std::logic_error);
  first.finish();
}

TEST_F(OverATinyModel, AStreamThatIsDroppedLeavesNothingBehind) {
  const auto llm = open(seats(4));
  {
    AnswerStream dropped(*llm.llm, tokens(300), {});
    for (const Dialogue& question : questions(3)) EXPECT_TRUE(dropped.push(question));
  }
  EXPECT_TRUE(llm->engine().idle());
  EXPECT_EQ(llm->chat(questions(1)[0], tokens(6)).text, open()->chat(questions(1)[0], tokens(6)).text);
}

// Red before end tokens were read there: the answer went on.
TEST_F(OverATinyModel, AnAnswerEndsWhereGenerationConfigSays) {
  const Answer whole = open()->chat(questions(1)[0], tokens(20));
  const std::int32_t end = whole.tokens[7].id;
  const auto first = std::find_if(whole.tokens.begin(), whole.tokens.end(), [&](auto& t) { return t.id == end; });
  dir_.write("model/generation_config.json", cat("{\"eos_token_id\": [300, ", end, "]}"));
  const Answer ended = open()->chat(questions(1)[0], tokens(20));
  EXPECT_EQ(ended.reason, FinishReason::stop);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(ended.tokens.size()), first - whole.tokens.begin() + 1);
}

// Red before: special tokens are no part of the text, in which stop words were looked for.
TEST_F(OverATinyModel, AStopWordOfOneSpecialTokenStops) {
  const Answer whole = open()->chat(questions(1)[0], tokens(20));
  const auto plain = std::find_if(whole.tokens.begin() + 5, whole.tokens.end(), [](const DrawnToken& t) {
    return t.id > ' ' && t.id <= '~' && t.id != '"' && t.id != '\\';
  });
  ASSERT_NE(plain, whole.tokens.end());
  const auto llm = open();
  const std::string word(llm.session->text->tokenizer.id_to_piece(plain->id));
  std::string json = dir_.read("model/tokenizer.json");
  const std::string list = "\"added_tokens\":[";
  json.insert(json.find(list) + list.size(),
              cat(R"({"id":)", plain->id, R"(,"content":")", word,
                  R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},)"));
  dir_.write("model/tokenizer.json", json);
  SamplingParams sampling = tokens(20);
  EXPECT_EQ(open()->chat(questions(1)[0], sampling).tokens.size(), 20U);
  sampling.stop = {word};
  const Answer ended = open()->chat(questions(1)[0], sampling);
  EXPECT_EQ(ended.reason, FinishReason::stop);
  EXPECT_EQ(ended.tokens.back().id, plain->id);
}

TEST_F(OverATinyModel, TheAuthorsAdviceIsTheDefault) {
  const auto quiet = open()->default_sampling();
  EXPECT_EQ(quiet.temperature, 0);
  EXPECT_EQ(quiet.max_new_tokens, 0) << "as many as there is room for";
  dir_.write("model/generation_config.json", R"({"do_sample": false, "temperature": 0.7, "repetition_penalty": 1.1})");
  const auto greedy = open()->default_sampling();
  EXPECT_EQ(greedy.temperature, 0);
  EXPECT_EQ(greedy.repetition_penalty, 1.1F);
  dir_.write("model/generation_config.json", R"({"do_sample": true, "temperature": 0.7, "top_p": 0.8})");
  const auto drawn = open()->default_sampling();
  EXPECT_EQ(drawn.temperature, 0.7F);
  EXPECT_EQ(drawn.top_k, 50);
  EXPECT_EQ(drawn.top_p, 0.8F);
  dir_.write("model/generation_config.json", "[1]");
  EXPECT_FALSE(try_open().ok());
}

TEST_F(OverATinyModel, ScoresAreOfTheTextAlone) {
  const auto llm = open();
  const std::vector<std::string> texts = {"one", "", "a", "one and two"};
  const auto scores = llm->score(texts);
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(scores[0].logprobs.size(), 2U);
  EXPECT_FALSE(scores[1].loss() || scores[2].perplexity());
  EXPECT_NEAR(*scores[0].loss(), -(scores[0].logprobs[0] + scores[0].logprobs[1]) / 2, 1e-12);
  EXPECT_NEAR(*scores[0].perplexity(), std::exp(*scores[0].loss()), 1e-9);
  const std::vector<std::string> alone = {texts[0]};
  EXPECT_EQ(open()->score(alone)[0].logprobs, scores[0].logprobs) << "a shorter capacity gives the same";
  // The law that ties both halves together: a greedy answer's log-probabilities are the scores of its text.
  const std::vector<Prompt> prompts = {TokenIds{104, 105}};
  const Answer answer = llm->generate(prompts, tokens(5))[0];
  TokenIds ids = {104, 105};
  for (const DrawnToken& token : answer.tokens) ids.push_back(token.id);
  const std::vector<TokenIds> whole = {ids};
  const auto score = llm->score(whole)[0];
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(score.logprobs[i + 1], answer.tokens[i].logprob, 1e-4);
  const std::vector<TokenIds> many(5, ids);
  ScoreCallbacks callbacks;
  std::size_t told = 0;
  callbacks.on_score = [&](std::size_t index, const TextScore& one) {
    EXPECT_EQ(index, told++);
    EXPECT_EQ(one.logprobs, score.logprobs);
  };
  callbacks.stopped = [&] { return told == 2; };
  EXPECT_EQ(llm->score(many, callbacks), 2U);
  const std::vector<TokenIds> long_one = {ids, TokenIds(513, 1)};
  try {
    (void)llm->score(long_one);
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().line(), "text 1: expected at most 512 tokens, found 513 tokens; split the text");
  }
}

// What a window scores is what its tokens score alone, and a text in one window is not changed by a stride.
TEST_F(OverATinyModel, ALongTextIsScoredInWindows) {
  LLMOptions options;
  options.max_model_len = 16;
  const auto llm = open(options);
  TokenIds ids;
  for (std::int32_t i = 0; i < 45; ++i) ids.push_back(40 + (i * 11) % 80);
  std::vector<TextScore> scores;
  ScoreCallbacks callbacks;
  callbacks.on_score = [&](std::size_t, const TextScore& score) { scores.push_back(score); };
  ScoreOptions scoring;
  scoring.stride = 6;
  const std::vector<TokenIds> texts = {ids, TokenIds(ids.begin(), ids.begin() + 16)};
  ASSERT_EQ(llm->score(texts, callbacks, scoring), 2U);
  ASSERT_EQ(scores[0].logprobs.size(), 44U);
  for (std::size_t begin = 0, scored = 1; scored < ids.size(); begin += 6) {
    const std::size_t end = std::min<std::size_t>(begin + 16, ids.size());
    const std::vector<TokenIds> window = {
        TokenIds(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end))};
    const auto alone = llm->score(window)[0];
    for (; scored < end; ++scored)
      EXPECT_NEAR(scores[0].logprobs[scored - 1], alone.logprobs[scored - 1 - begin], 1e-5) << scored;
  }
  EXPECT_EQ(scores[1].logprobs, llm->score(std::vector<TokenIds>{texts[1]})[0].logprobs);
  // Between the windows of a long text it is asked whether to go on.
  int asked = 0;
  callbacks.stopped = [&] { return ++asked == 3; };
  EXPECT_EQ(llm->score(texts, callbacks, scoring), 0U);
  EXPECT_EQ(asked, 3);
  callbacks.stopped = nullptr;
  scoring.stride = 16;
  const auto refused = catching([&] { return llm->score(texts, callbacks, scoring); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().line(),
            "--stride is 16, and windows have 16 tokens: the first token of each would not be scored; give a stride "
            "below 16.");
}

TEST_F(OverATinyModel, AReferenceIsAnotherModelOfTheSameVocabulary) {
  const std::vector<TokenIds> texts = {TokenIds{104, 105, 32, 104, 105, 33}};
  std::vector<TextScore> scores;
  ScoreCallbacks callbacks;
  callbacks.on_score = [&](std::size_t, const TextScore& score) { scores.push_back(score); };
  const auto llm = open();
  const auto against = [&](LLM& other) {
    ScoreOptions scoring;
    scoring.reference = &other;
    return catching([&] { return llm->score(texts, callbacks, scoring); });
  };
  ASSERT_TRUE(against(*open().llm).ok());
  EXPECT_EQ(*scores[0].kl_divergence(), 0) << "itself";
  EXPECT_EQ(*scores[0].same_top(), 1);
  const auto plain = llm->score(texts)[0];
  EXPECT_FALSE(plain.kl_divergence() || plain.same_top());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(scores[0].logprobs[i], plain.logprobs[i], 1e-5);
  e2e::write_tiny_model(dir_ / "other", {.seed = 2});
  model_ = "other";
  ASSERT_TRUE(against(*open().llm).ok());
  EXPECT_GT(*scores[1].kl_divergence(), 0.01);
  EXPECT_EQ(scores[1].logprobs, scores[0].logprobs) << "those of the model, whatever the reference";
  double sum = 0;
  for (const TokenComparison& token : scores[1].comparison) sum += token.kl;
  EXPECT_EQ(*scores[1].kl_divergence(), sum / 5);
  LLMOptions narrow;
  narrow.max_model_len = 4;
  const std::string path = (dir_ / "other").string();
  EXPECT_EQ(against(*open(narrow).llm).error().line(),
            "windows have 6 tokens, and " + path + " computes at most 4; open both with one max_model_len.");
  const std::string tokenizer = io::read_text_file(dir_ / "other/tokenizer.json").value();
  dir_.write("other/tokenizer.json", std::regex_replace(tokenizer, std::regex("<\\|im_start"), "<|im_begin"));
  EXPECT_EQ(against(*open().llm).error().line(),
            cat(path, ": token 256: expected \"<|im_start|>\", as ", (dir_ / "model").string(),
                " has it, found \"<|im_begin|>\"; compare models that share a tokenizer"));
  models::ModelConfig& config = llm.session->model.config;
  config.vocab_size += 1;
  EXPECT_EQ(against(*open().llm).error().line(),
            cat(path, ": expected the vocabulary of ", (dir_ / "model").string(), ", ", config.vocab_size,
                " tokens, found ", config.vocab_size - 1, " tokens; compare models that share a tokenizer"));
  config.vocab_size -= 1;
}

// A session computes with as many threads as it is told, whatever an earlier one had.
TEST_F(OverATinyModel, EachSessionHasItsOwnThreads) {
  for (const int threads : {1, 3, 2}) {
    session::SessionOptions options;
    options.model = (dir_ / "model").string();
    options.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    options.runtime.num_threads = threads;
    const auto session = session::open_session(options).value();
    EXPECT_EQ(session->runtime->device->info().compute_units, threads);
  }
}

TEST_F(OverATinyModel, ALengthBeyondTheModelsIsRefused) {
  LLMOptions options;
  options.max_model_len = 513;
  EXPECT_EQ(try_open(options).error().line(),
            "--max_model_len is 513, and the model takes at most 512 tokens; lower it.");
  options.max_model_len = 20;
  EXPECT_EQ(open(options)->max_model_len(), 20);
}

TEST_F(OverATinyModel, BeamsFindTheSameBesideOthers) {
  LLMOptions options = seats(5);
  options.num_beams = 4;
  auto llm = open(options);
  SamplingParams sampling = tokens(10);
  sampling.num_beams = 4;
  const auto together = llm->chat(questions(4), sampling);
  ASSERT_EQ(together.size(), 4U);
  double greedy = 0, best = 0;
  for (std::size_t i = 0; i < together.size(); ++i) {
    const Answer alone = open(options)->chat(questions(4)[i], sampling);
    EXPECT_EQ(alone.text, together[i].text);
    EXPECT_FALSE(together[i].tokens.empty());
    EXPECT_EQ(alone.reason, together[i].reason);
    for (const auto& token : together[i].tokens) best += static_cast<double>(token.logprob);
    for (const auto& token : llm->chat(questions(4)[i], tokens(10)).tokens)
      greedy += static_cast<double>(token.logprob);
  }
  EXPECT_GT(best, greedy) << "four beams find nothing better than one";
  const auto refused = [&](auto change) {
    SamplingParams changed = sampling;
    change(changed);
    const auto asked = catching([&] { return llm->chat(questions(1), changed); });
    return asked ? "" : asked.error().line();
  };
  EXPECT_EQ(
      refused([](SamplingParams& p) { p.temperature = 0.5F; }),
      "--num_beams searches for the likeliest answer, and --temperature 0.5 would draw one; give --temperature 0.");
  EXPECT_EQ(refused([](SamplingParams& p) { p.repetition_penalty = 1.1F; }),
            "--num_beams searches for the likeliest answer, and penalties would change what is likely; give "
            "--repetition_penalty 1.");
  EXPECT_EQ(
      refused([](SamplingParams& p) {
        p.logit_bias = {{5, 1.0F}};
      }),
      "--num_beams searches for the likeliest answer, and the answer is held to a form; leave one of the two out.");
  sampling = tokens(10);
  sampling.num_beams = 2;
  sampling.stop = {together[0].text.substr(1, 1)};
  const Answer stopped = llm->chat(questions(4)[0], sampling);
  EXPECT_EQ(stopped.text.find(sampling.stop[0]), std::string::npos);
}

// Two engines over one session, one of them with an adapter: each has its own weights.
TEST_F(OverATinyModel, AnAdapterChangesItsOwnAnswersOnly) {
  auto plain = open();
  models::AdapterConfig config;
  config.rank = 2;
  models::LoadedModel& model = plain.session->model;
  models::LoadedAdapter adapter = models::create_adapter(model, "made", config, models::linear_modules(model.config));
  for (const auto& [module, layer] : adapter.layers) {
    for (const auto& part : {layer.lora_a, layer.lora_b}) {
      std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(part).desc)));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1F * std::sin(static_cast<float>(i));
      model.store->upload(part, std::as_bytes(std::span(values)));
    }
    adapter.config.target_modules.push_back(module.substr(module.rfind('.') + 1));
  }
  std::filesystem::create_directories(dir_ / "adapter");
  models::save_adapter(*model.store, adapter, dir_ / "adapter");
  LLMOptions options;
  options.adapter = dir_ / "adapter";
  const std::string before = plain->chat(questions(1)[0], tokens(12)).text;
  const auto first = LLM::open(*plain.session, options).value();
  const auto second = LLM::open(*plain.session, options).value();
  const std::string adapted = first->chat(questions(1)[0], tokens(12)).text;
  EXPECT_NE(adapted, before);
  EXPECT_EQ(second->chat(questions(1)[0], tokens(12)).text, adapted);
  EXPECT_EQ(open()->chat(questions(1)[0], tokens(12)).text, before);
}

}  // namespace
}  // namespace tern::engine
