// The supervised mask: every token that an assistant writes counts exactly once, its end of turn too, and nothing else.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "chat/supervised.h"
#include "io/json.h"
#include "tests/support/parsed_json.h"

namespace tern::chat {
namespace {

using Json = io::Json;

// What stands around an answer in its supervised span, by the families' documented formats.
struct Around {
  std::string before, after;
  bool split = false;  // a turn is rendered otherwise once the conversation goes on
};

const std::map<std::string, Around>& families() {
  static const std::map<std::string, Around> table{
      {"command-r", {"", "<|END_OF_TURN_TOKEN|>"}},
      {"deepseek-r1", {"", "<｜end▁of▁sentence｜>"}},
      {"deepseek-v2", {" ", "</s>"}},
      {"deepseek-v3", {"", "<｜end▁of▁sentence｜>"}},
      {"gemma2", {"", "<end_of_turn>\n"}},
      {"gemma3", {"", "<end_of_turn>\n"}},
      {"glm4", {"", ""}},  // the next turn's header ends it
      {"gpt-oss", {"<|channel|>final<|message|>", "<|return|>", true}},
      {"internlm2", {"", "<|im_end|>\n"}},
      {"llama2", {" ", " </s>"}},
      {"llama3", {"", "<|eot_id|>"}},
      {"llama3.1", {"", "<|eot_id|>"}},
      {"llama4", {"", "<|eot|>"}},
      {"mistral-v1", {"", "</s>"}},
      {"mistral-v3", {" ", "</s>"}},
      {"mistral-v7", {"", "</s>"}},
      {"olmo2", {"", "</s>"}},
      {"phi3", {"", "<|end|>\n</s>", true}},
      {"phi4", {"", "<|im_end|>"}},
      {"phi4-mini", {"", "<|end|></s>", true}},
      {"qwen2", {"", "<|im_end|>\n"}},
      {"qwen2-vl", {"", "<|im_end|>\n"}},
      {"qwen2.5", {"", "<|im_end|>\n"}},
      {"qwen3", {"<think>\n\n</think>\n\n", "<|im_end|>\n", true}},
      {"smollm2", {"", "<|im_end|>\n"}},
      {"smollm3", {"", "<|im_end|>\n"}},
  };
  return table;
}

ChatTemplate load(const std::string& name) {
  const std::ifstream file(TERN_TEST_DATA "/templates/" + name + ".jinja", std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return ChatTemplate::parse(text.str(), name).value();
}

Result<Supervised<SupervisedText>> supervise(const ChatTemplate& chat_template, const Json& messages,
                                             const SupervisedOptions& options = {}) {
  ChatInput input;
  input.messages = &messages;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return supervised_text(chat_template, input, options);
}

std::vector<std::string> pieces(const Supervised<SupervisedText>& all) {
  std::vector<std::string> out;
  for (const SupervisedText& sample : all.samples) {
    for (const SupervisedSpan& span : sample.spans)
      out.push_back(sample.text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

std::size_t count(const std::vector<std::string>& texts, const std::string& wanted) {
  std::size_t found = 0;
  for (const std::string& text : texts) {
    for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++found;
  }
  return found;
}

const Json two_turns = test::parsed_json(R"([
  {"role": "user", "content": "USER-0"}, {"role": "assistant", "content": "ANSWER-0"},
  {"role": "user", "content": "USER-1"}, {"role": "assistant", "content": "ANSWER-1"}])");

TEST(Supervised, EachFamilysTurnIsWhatItAddsToThePrompt) {
  for (const auto& [name, around] : families()) {
    const auto result = supervise(load(name), two_turns);
    ASSERT_TRUE(result) << result.error().line();
    const std::vector<std::string> expected{around.before + "ANSWER-0" + around.after,
                                            around.before + "ANSWER-1" + around.after};
    EXPECT_EQ(pieces(*result), expected) << name;
    EXPECT_EQ(result->samples.size(), around.split ? 2U : 1U) << name;
    EXPECT_EQ(result->note.empty(), !around.split) << name;
  }
}

// Other shapes of conversation; ANSWER, CALL and THOUGHT are what the assistant writes.
const std::map<std::string, Json>& shapes() {
  static const std::map<std::string, Json> table{
      {"system", test::parsed_json(R"([{"role": "system", "content": "SYSTEM"}, {"role": "user", "content": "USER-0"},
          {"role": "assistant", "content": "ANSWER-0"}, {"role": "user", "content": "USER-1"},
          {"role": "assistant", "content": "ANSWER-1"}, {"role": "user", "content": "USER-2"}])")},
      {"tools", test::parsed_json(R"([{"role": "user", "content": "USER-0"},
          {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
           "function": {"name": "f", "arguments": {"x": "CALL-0"}}}]},
          {"role": "tool", "content": "RESULT", "name": "f", "tool_call_id": "abcdefghi"},
          {"role": "assistant", "content": "ANSWER-0"}, {"role": "user", "content": "USER-1"},
          {"role": "assistant", "content": "ANSWER-1"}])")},
      {"thinking", test::parsed_json(R"([{"role": "user", "content": "USER-0"},
          {"role": "assistant", "content": "<think>\nTHOUGHT-0\n</think>\n\nANSWER-0"},
          {"role": "user", "content": "USER-1"},
          {"role": "assistant", "content": "<think>\nTHOUGHT-1\n</think>\n\nANSWER-1"}])")},
      {"assistant first", test::parsed_json(R"([{"role": "assistant", "content": "ANSWER-0"},
          {"role": "user", "content": "USER-0"}, {"role": "assistant", "content": "ANSWER-1"}])")},
      {"two in a row", test::parsed_json(R"([{"role": "user", "content": "USER-0"},
          {"role": "assistant", "content": "ANSWER-0"}, {"role": "assistant", "content": "ANSWER-1"}])")},
      {"parts",
       test::parsed_json(R"([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "USER-0"}]},
          {"role": "assistant", "content": [{"type": "text", "text": "ANSWER-0"}]}])")},
  };
  return table;
}

TEST(Supervised, WhatTheAssistantWritesCountsOnceAndNothingElse) {
  std::size_t checked = 0;
  for (const auto& [name, around] : families()) {
    const ChatTemplate chat_template = load(name);
    for (const auto& [shape, messages] : shapes()) {
      const auto result = supervise(chat_template, messages);
      if (!result) continue;  // the family refuses this shape, as transformers does (template_golden)
      ++checked;
      const auto learned = pieces(*result);
      for (const char* other : {"USER", "SYSTEM", "RESULT"})
        EXPECT_EQ(count(learned, other), 0U) << name << " " << shape;
      for (const char* own : {"ANSWER-0", "ANSWER-1", "CALL-0", "THOUGHT-1"}) {
        std::vector<std::string> texts;
        for (const SupervisedText& sample : result->samples) texts.push_back(sample.text);
        const bool rendered = count(texts, own) > 0;
        EXPECT_EQ(count(learned, own), rendered ? 1U : 0U) << name << ", " << shape << ": " << own;
      }
      for (const std::string& piece : learned) {
        if (piece.find("ANSWER") == std::string::npos) continue;
        EXPECT_TRUE(piece.ends_with(around.after)) << name << ", " << shape << ": " << piece;
      }
    }
  }
  EXPECT_GT(checked, 100U);
}

TEST(Supervised, AThinkingBlockThatTheTemplateDropsIsLearnedInItsOwnSample) {
  const auto result = supervise(load("qwen3"), shapes().at("thinking"));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->samples.size(), 2U);
  EXPECT_EQ(pieces(*result)[0], "<think>\nTHOUGHT-0\n</think>\n\nANSWER-0<|im_end|>\n");
  EXPECT_EQ(result->samples[1].text.find("THOUGHT-0"), std::string::npos);
  EXPECT_NE(result->note.find("qwen3"), std::string::npos);
}

TEST(Supervised, LossScaleAndTheMessagesOwnLossDecide) {
  const ChatTemplate chat_template = load("qwen2");
  SupervisedOptions options;
  options.loss_scale = parse_loss_scale("last_round").value();
  EXPECT_EQ(pieces(supervise(chat_template, two_turns, options).value()),
            std::vector<std::string>{"ANSWER-1<|im_end|>\n"});
  options.loss_scale = parse_loss_scale("all").value();
  auto all = supervise(chat_template, two_turns, options).value();
  EXPECT_EQ(pieces(all), std::vector<std::string>{all.samples[0].text});
  EXPECT_FALSE(parse_loss_scale("some"));

  Json messages = two_turns;
  messages[1]["loss"] = false;
  messages[3]["loss"] = 0.5;
  const auto own = supervise(chat_template, messages).value();
  EXPECT_EQ(pieces(own), std::vector<std::string>{"ANSWER-1<|im_end|>\n"});
  EXPECT_EQ(own.samples[0].spans[0].weight, 0.5F);
  all = supervise(chat_template, messages, options).value();
  EXPECT_EQ(count(pieces(all), "ANSWER-0"), 0U);
  EXPECT_EQ(count(pieces(all), "USER"), 2U);

  messages[0]["loss"] = true;
  const auto refused = supervise(chat_template, messages);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().line().find("messages[0].loss"), std::string::npos);
}

TEST(Supervised, TheSystemOptionStandsInForAnAbsentOne) {
  SupervisedOptions options;
  options.system = "SYSTEM";
  const ChatTemplate chat_template = load("qwen2");
  const auto added = supervise(chat_template, two_turns, options).value();
  EXPECT_TRUE(added.samples[0].text.starts_with("<|im_start|>system\nSYSTEM<|im_end|>\n"));
  EXPECT_EQ(pieces(added).size(), 2U);
  Json own = Json::array({{{"role", "system"}, {"content", "OWN"}}});
  for (const Json& message : two_turns) own.push_back(message);
  EXPECT_EQ(supervise(chat_template, own, options).value().samples[0].text.find("SYSTEM"), std::string::npos);
}

// Characters as tokens, with the two markers of ChatML.
tokenizer::Tokenizer character_tokenizer() {
  Json vocab = {{"<unk>", 0}, {"\n", 1}, {"é", 2}};
  for (char c = ' '; c < 127; ++c) vocab[std::string(1, c)] = vocab.size();
  const auto special = [&](const char* content, int offset) {
    return Json{{"id", static_cast<int>(vocab.size()) + offset},
                {"content", content},
                {"single_word", false},
                {"lstrip", false},
                {"rstrip", false},
                {"normalized", false},
                {"special", true}};
  };
  Json json = {{"version", "1.0"},
               {"added_tokens", {special("<|im_start|>", 0), special("<|im_end|>", 1)}},
               {"normalizer", nullptr},
               {"pre_tokenizer", nullptr},
               {"post_processor", nullptr},
               {"decoder", {{"type", "Fuse"}}},
               {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return tokenizer::Tokenizer::from_json(json.dump(), "characters").value();
}

TEST(Supervised, TokensOfTheWholeTextCarryTheSpansWeights) {
  const tokenizer::Tokenizer tokenizer = character_tokenizer();
  const Json messages = test::parsed_json(R"([{"role": "user", "content": "é?"},
    {"role": "assistant", "content": "é<|im_end|>!"}, {"role": "user", "content": "x"},
    {"role": "assistant", "content": "42"}])");
  ChatInput input;
  input.messages = &messages;
  const ChatTemplate chat_template = load("internlm2");
  const auto result = supervised_samples(chat_template, tokenizer, input, {});
  ASSERT_TRUE(result) << result.error().line();
  ASSERT_EQ(result->samples.size(), 1U);
  const SupervisedSample& sample = result->samples[0];
  ASSERT_EQ(sample.ids.size(), sample.weights.size());
  EXPECT_EQ(sample.ids, tokenizer.encode(chat_template.render(input).value(), false));
  std::vector<tokenizer::TokenId> learned;
  for (std::size_t i = 0; i < sample.ids.size(); ++i) {
    if (sample.weights[i] > 0) learned.push_back(sample.ids[i]);
  }
  EXPECT_EQ(tokenizer.decode(learned, false), "é<|im_end|>!<|im_end|>\n42<|im_end|>\n");
}

TEST(Supervised, ATokenOnABorderBelongsWhereItBegins) {
  const SupervisedText text{"ab\nécd", {{3, 6, 2.0F}}};  // "éc", bytes 3 to 6, code points 3 to 5
  EXPECT_EQ(token_weights(text, {{0, 2}, {2, 4}, {4, 6}, {5, 6}}), (std::vector<float>{0, 0, 2, 0}));
  EXPECT_EQ(token_weights(text, {{3, 4}, {3, 4}, {0, 0}}), (std::vector<float>{2, 2, 0}));
}

// A conversation that cannot be taught from says what is wrong with it.
TEST(SupervisedErrors, NameTheMessage) {
  const auto line = [](const char* source, const Json* messages, const char* scale) {
    const auto templated = ChatTemplate::parse(source, "t").value();
    ChatInput input;
    input.messages = messages;
    SupervisedOptions options;
    options.loss_scale = parse_loss_scale(scale).value();
    return supervised_text(templated, input, options).error().line();
  };
  const char* plain = "{% for m in messages %}{{ m.content }};{% endfor %}";
  const std::string array = R"(; give them as [{"role": "user", "content": "..."}, ...])";
  EXPECT_EQ(line(plain, nullptr, "default"), "messages: expected an array, found nothing" + array);
  const Json number = test::parsed_json("[7]");
  EXPECT_EQ(line(plain, &number, "default"), "messages[0]: expected an object, found number" + array);
  const Json loss = test::parsed_json(R"([{"role":"assistant","content":"a","loss":"x"}])");
  EXPECT_EQ(line(plain, &loss, "default"),
            "messages[0].loss: expected true, false or a weight of at least 0, found 'x'; write true, false or a "
            "number as 0.5");
  const Json user = test::parsed_json(R"([{"role":"user","content":"a","loss":1}])");
  EXPECT_EQ(line(plain, &user, "default"),
            "messages[0].loss: expected a weight at an assistant's message, found one at role \"user\"; only what the "
            "assistant says is learned");
  const char* changing = "{% for m in messages %}{{ m.content }}{{ '!' if loop.last else '?' }}{% endfor %}";
  const Json turns = test::parsed_json(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","loss":0.5},{"role":"user","content":"c"}])");
  EXPECT_EQ(line(changing, &turns, "all"),
            "t: expected a template that renders a turn alike as the conversation goes on, found one that does not; "
            "leave `loss` out of the messages, or use loss_scale default");
  EXPECT_EQ(parse_loss_scale("some").error().line(),
            "--loss_scale \"some\" is unknown; choose default, last_round or all.");
  const auto templated = ChatTemplate::parse(plain, "t").value();
  ChatInput unfinished;
  unfinished.messages = &turns;
  unfinished.add_generation_prompt = true;
  EXPECT_THROW((void)supervised_text(templated, unfinished, {}), std::logic_error);
}

}  // namespace
}  // namespace tern::chat
