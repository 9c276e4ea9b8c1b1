// What the LLM makes of whole texts, on tiny models with random weights.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/strings.h"
#include "engine/llm.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::engine {
namespace {

class WholeTexts : public ::testing::Test {
 protected:
  struct Opened {
    std::unique_ptr<session::Session> session;
    std::unique_ptr<LLM> llm;
    LLM* operator->() const { return llm.get(); }
  };
  [[nodiscard]] Opened open(const e2e::TinyModel& model, std::int64_t seats = 1) const {
    const auto folder = dir_ / cat("model-", model.labels, model.verdicts);
    e2e::write_tiny_model(folder, model);
    session::SessionOptions session;
    session.model = folder.string();
    session.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    session.dtype = TERN_F32;
    session.heads = models::Heads::any;
    LLMOptions options;
    options.engine.max_num_seqs = seats;
    Opened opened;
    opened.session = session::open_session(session).value();
    opened.llm = LLM::open(*opened.session, options).value();
    return opened;
  }
  static std::string problem_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Failure& failure) {
      return failure.error().line();
    }
    return {};
  }
  static double length_of(const std::vector<float>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  }

  const std::vector<Prompt> texts_ = {Prompt("The sky is blue."), Prompt("Grass"), Prompt(std::string(300, 'x')),
                                      Prompt("1 + 2")};
  test::TempDir dir_;
};

TEST_F(WholeTexts, AVectorIsTheSameAloneAndAmongOthers) {
  const auto alone = open({}, 1);
  const auto together = open({}, 3);
  for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean}) {
    const auto one = alone->embed(texts_, {pooling, false});
    const auto three = together->embed(texts_, {pooling, false});
    const auto unit = alone->embed(texts_, {pooling, true});
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      ASSERT_EQ(one[i].values.size(), 32U);
      EXPECT_EQ(one[i].tokens, three[i].tokens);
      EXPECT_NEAR(length_of(unit[i].values), 1.0, 1e-6);
      const double length = length_of(one[i].values);
      for (std::size_t d = 0; d < one[i].values.size(); ++d) {
        EXPECT_NEAR(one[i].values[d], three[i].values[d], 1e-5);
        EXPECT_NEAR(one[i].values[d] / length, unit[i].values[d], 1e-6);
      }
    }
  }
  EXPECT_EQ(alone->default_pooling().pooling, Pooling::last);
  EXPECT_TRUE(alone->default_pooling().normalize);
}

TEST_F(WholeTexts, OneThatDoesNotFitIsItsOwnError) {
  const auto llm = open({}, 4);
  std::vector<Prompt> texts = texts_;
  texts[1] = std::string(600, 'x');
  texts[2] = TokenIds{};
  const auto found = llm->embed(texts, {});
  EXPECT_TRUE(!found[0].error && !found[3].error);
  ASSERT_TRUE(found[1].error && found[2].error);
  EXPECT_NE(found[1].error->line().find("expected 1 to 512 tokens, found 600 tokens; shorten it"), std::string::npos)
      << found[1].error->line();
  EXPECT_NE(found[2].error->line().find("found 0 tokens; leave it out"), std::string::npos);
  EXPECT_TRUE(found[1].values.empty());
}

// The probability of "yes" beside "no" is what scoring gives of either.
TEST_F(WholeTexts, ARerankerAnswersWithTheNextTokensProbability) {
  const auto llm = open({.max_positions = 1024, .verdicts = true}, 2);
  const tokenizer::Tokenizer& tokenizer = llm->session().text->tokenizer;
  const std::vector<RerankPair> pairs = {{"What is blue?", "The sky."}, {"1 + 2", "3", "Find sums"}};
  const auto found = llm->rerank(pairs);
  const Verdicts verdicts = verdict_ids(tokenizer).value();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const TokenIds prompt = rerank_prompt(tokenizer, pairs[i]).value();
    const std::string text = tokenizer.decode(prompt, false);
    EXPECT_NE(text.find(cat("<Instruct>: ", pairs[i].instruction.value_or(std::string(kRetrieval)),
                            "\n<Query>: ", pairs[i].query, "\n<Document>: ", pairs[i].document,
                            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")),
              std::string::npos)
        << text;
    const auto logprob = [&](std::int32_t id) {
      TokenIds ids = prompt;
      ids.push_back(id);
      return llm->score(std::span<const TokenIds>(&ids, 1)).front().logprobs.back();
    };
    const double odds = logprob(verdicts.yes) - logprob(verdicts.no);
    ASSERT_EQ(found[i].values.size(), 1U);
    EXPECT_NEAR(found[i].values[0], 1.0 / (1.0 + std::exp(-odds)), 1e-5);
    EXPECT_GT(std::fabs(odds), 1e-3) << "the words would not be told apart";
  }
}

TEST_F(WholeTexts, OneLabelRanksByItsSigmoid) {
  const auto llm = open({.max_positions = 1024, .labels = 1});
  const RerankPair pair{"What is blue?", "The sky."};
  const Prompt prompt = rerank_prompt(llm->session().text->tokenizer, pair).value();
  const double logit = llm->classify(std::span(&prompt, 1)).front().values.at(0);
  EXPECT_NEAR(llm->rerank(std::span(&pair, 1)).front().values.at(0), 1.0 / (1.0 + std::exp(-logit)), 1e-6);
  EXPECT_NEAR(llm->rerank(std::span(&pair, 1), false).front().values.at(0), logit, 1e-6);
}

TEST_F(WholeTexts, WhatAModelHasNoHeadForIsRefused) {
  const RerankPair pair{"q", "d"};
  const auto language = open({});
  EXPECT_NE(problem_of([&] { (void)language->classify(texts_); }).find("a class for sequence classification"),
            std::string::npos);
  EXPECT_NE(problem_of([&] { (void)language->rerank(std::span(&pair, 1)); }).find("one token for \"yes\""),
            std::string::npos);
  const auto labels = open({.labels = 3});
  EXPECT_EQ(labels->classify(texts_).front().values.size(), 3U);
  EXPECT_NE(problem_of([&] { (void)labels->rerank(std::span(&pair, 1)); }).find("a classification with one label"),
            std::string::npos);
  EXPECT_NE(problem_of([&] {
              (void)labels->chat({{"user", "hello"}}, {});
            }).find("expected a language model"),
            std::string::npos);
  EXPECT_NE(
      problem_of([&] { (void)labels->score(std::vector<std::string>{"hello"}); }).find("expected a language model"),
      std::string::npos);
}

TEST_F(WholeTexts, ATokenizerWithoutTheDialoguesTokensIsNamed) {
  e2e::write_tiny_model(dir_ / "model");
  std::ifstream file(dir_ / "model/tokenizer.json");
  std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  json.replace(json.find("<|im_start|>"), 12, "<|beginning|");
  const auto tokenizer = tokenizer::Tokenizer::from_json(json, "tokenizer.json").value();
  const auto ids = rerank_prompt(tokenizer, {"q", "d"});
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.error().line().find("expected the token <|im_start|>"), std::string::npos) << ids.error().line();
}

}  // namespace
}  // namespace tern::engine
