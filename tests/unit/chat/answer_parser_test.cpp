// Answers of each family, with the texts that vLLM tests its own parsers with; expectations are facts about those
// texts.
#include "chat/answer_parser.h"

#include <gtest/gtest.h>

#include "answer_reading.h"

namespace tern::chat {
namespace {

constexpr const char* kAnswerTools =
    R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": )"
    R"({"city": {"type": "string"}, "days": {"type": "integer"}, "ratio": {"type": "number"}, "now": {"type": )"
    R"("boolean"}, "where": {"type": "object"}, "list": {"type": "array"}, "either": {"anyOf": [{"type": "integer"}, )"
    R"({"type": "null"}]}}}}}, {"name": "now", "parameters": {}}])";

ParserOptions reading(const std::string& tool_call, const std::string& reasoning = "") {
  ParserOptions options;
  options.formats = {reasoning, tool_call};
  options.tools_json = kAnswerTools;
  return options;
}

struct AnswerCase {
  const char* format;
  const char* text;
  ReadAnswer want;
};

class AnswerCalls : public ::testing::TestWithParam<AnswerCase> {};

TEST_P(AnswerCalls, AreReadInAnyCuts) {
  ParserOptions options = reading(GetParam().format);
  EXPECT_EQ(read_answer(options, GetParam().text), GetParam().want) << GetParam().text;
  options.whole_calls = true;
  EXPECT_EQ(read_answer(options, GetParam().text), GetParam().want) << GetParam().text;
}

const AnswerCase kHermes[] = {
    {"hermes", "This is not a tool call.", {"", "This is not a tool call.", {}}},
    {"hermes",
     "<tool_call>\n{\"name\": \"final_answer\", \"arguments\": {\"trigger\": true}}\n</tool_call>",
     {"", "", {{"final_answer", "{\"trigger\": true}"}}}},
    {"hermes",
     "<tool_call>\n{\"name\": \"final_answer\", \"arguments\": {\"trigger\": true}}",
     {"", "", {{"final_answer", "{\"trigger\": true}"}}}},
    {"hermes",
     "<tool_call>{\"name\": \"get_current_temperature\",\"arguments\": {\"location\":\"San Francisco, California, "
     "United States\", \"unit\": \"celsius\"}}</tool_call>",
     {"",
      "",
      {{"get_current_temperature",
        "{\"location\":\"San Francisco, California, United States\", \"unit\": \"celsius\"}"}}}},
    {"hermes",
     "Sure, let me check the weather.<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": "
     "\"NYC\"}}</tool_call>",
     {"", "Sure, let me check the weather.", {{"get_weather", "{\"city\": \"NYC\"}"}}}},
    {"hermes",
     "Two.\n\n<tool_call>{\"name\": \"search\", \"arguments\": {\"q\": \"cats\"}}</tool_call>\n<tool_call>{\"name\": "
     "\"search\", \"arguments\": {\"q\": \"dogs\"}}</tool_call>\nThere.",
     {"", "Two.There.", {{"search", "{\"q\": \"cats\"}"}, {"search", "{\"q\": \"dogs\"}"}}}},
    // Arguments before the name, arguments in a string, keys that say nothing, escapes, and a brace too many.
    {"hermes",
     "<tool_call>{\"arguments\": {\"a\": {\"name\": 1}}, \"name\": \"f\"}</tool_call>",
     {"", "", {{"f", "{\"a\": {\"name\": 1}}"}}}},
    {"hermes",
     R"(<tool_call>{"name": "get_db_config", "arguments": "{\"param\": \"max\\nconn \u00e9\"}"}</tool_call>)",
     {"", "", {{"get_db_config", R"({"param": "max\nconn é"})"}}}},
    {"hermes",
     R"(<tool_call>{"note": [1, {"x": null}], "name": "\ud83d\ude00\u00fc", "id": 3, "arguments": {}}}</tool_call>)",
     {"", "", {{"😀ü", "{}"}}}},
    {"hermes", "a < b <tool <tool_cal x", {"", "a < b <tool <tool_cal x", {}}},
    {"hermes", "ends in <tool_c", {"", "ends in <tool_c", {}}},
    {"hermes", "ends in \n\n", {"", "ends in \n\n", {}}},
    // Broken before its arguments: text.
    {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", {"", "<tool_call>{\"name\": \"f\"}</tool_call>", {}}},
    {"hermes", "<tool_call>f(1)</tool_call>", {"", "<tool_call>f(1)</tool_call>", {}}},
    {"hermes", "a\n<tool_call>{'name'", {"", "a\n<tool_call>{'name'", {}}},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": \"hello\"}</tool_call>",
     {"", "<tool_call>{\"name\": \"f\", \"arguments\": \"hello\"}</tool_call>", {}}},
    {"hermes",
     "<tool_call>oh <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     {"", "<tool_call>oh ", {{"f", "{}"}}}},
};
INSTANTIATE_TEST_SUITE_P(Hermes, AnswerCalls, ::testing::ValuesIn(kHermes));

// What breaks behind its first argument is text to its last letter where calls come whole, and text from the break on
// where they are streamed.
TEST(AnswerParser, BrokenArgumentsAreText) {
  const std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": tru}}\n</tool_call>";
  ParserOptions options = reading("hermes");
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", "}}\n</tool_call>", {{"f", "{\"a\": tru"}}}));
  options.whole_calls = true;
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", text, {}}));
  const std::string cut = text.substr(0, text.find("tru"));
  EXPECT_EQ(read_answer(options, cut), (ReadAnswer{"", cut, {}}));
  options.whole_calls = false;
  EXPECT_EQ(read_answer(options, cut), (ReadAnswer{"", "", {{"f", "{\"a\": "}}}));
}

TEST(AnswerParser, OneCallAloneLeavesOutTheRest) {
  const std::string text =
      "a<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> b <tool_call>{\"name\": \"g\", \"arguments\": "
      "{\"x\": 1}}</tool_call>c";
  ParserOptions options = reading("hermes");
  options.parallel_calls = false;
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", "a", {{"f", "{}"}}}));
  options.whole_calls = true;
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", "a", {{"f", "{}"}}}));
}

TEST(AnswerParser, WithoutToolsCallsAreText) {
  const std::string text = "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n";
  ParserOptions options = reading("hermes");
  options.tools_json.clear();
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", text, {}}));
}

// Whatever is sure is given at once: arguments as they come, text but for the beginning of a marker.
TEST(AnswerParser, HoldsBackNoMoreThanMayBeAMarker) {
  const auto parser = make_answer_parser(reading("hermes")).value();
  using Kind = AnswerPart::Kind;
  using Parts = std::vector<AnswerPart>;
  EXPECT_EQ(parser->push("Look <to"), (Parts{{Kind::content, "Look ", 0, ""}}));
  EXPECT_EQ(parser->push("y <tool_call>{\"name\": \"f\", "), (Parts{{Kind::content, "<toy ", 0, ""}}));
  EXPECT_EQ(parser->push("\"arguments\": {\"a"), (Parts{{Kind::call, "f", 0, ""}, {Kind::arguments, "{\"a", 0, ""}}));
  EXPECT_EQ(parser->push("b\""), (Parts{{Kind::arguments, "b\"", 0, ""}}));
}

TEST(AnswerParser, DeepNestingBreaksACall) {
  for (const std::size_t depth : {std::size_t{499}, std::size_t{500}, std::size_t{100000}}) {
    const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + std::string(depth, '[') +
                             std::string(depth, ']') + "}}</tool_call>";
    ParserOptions options = reading("hermes");
    options.whole_calls = true;
    EXPECT_EQ(read_pieces(options, {text}).calls.size(), depth == 499 ? 1U : 0U) << depth;
  }
}

TEST(AnswerParser, SaysWhichNamesThereAre) {
  const auto tool = make_answer_parser(reading("hermse"));
  ASSERT_FALSE(tool.ok());
  EXPECT_EQ(tool.error().kind, ErrorKind::usage);
  EXPECT_NE(tool.error().line().find("no tool call format \"hermse\"; name one of "), std::string::npos);
  const auto thought = make_answer_parser(reading("", "qwen9"));
  ASSERT_FALSE(thought.ok());
  EXPECT_NE(thought.error().line().find("no reasoning format \"qwen9\"; name one of "), std::string::npos);
}

struct AnswerThought {
  const char* format;
  const char* prompt;
  const char* text;
  ReadAnswer want;
};
class AnswerThoughts : public ::testing::TestWithParam<AnswerThought> {};

TEST_P(AnswerThoughts, AreReadInAnyCuts) {
  ParserOptions options = reading("hermes", GetParam().format);
  options.prompt_tail = GetParam().prompt;
  EXPECT_EQ(read_answer(options, GetParam().text), GetParam().want) << GetParam().text;
}

const AnswerThought kThoughts[] = {
    {"qwen3",
     "",
     "<think>This is a reasoning section</think>This is the rest",
     {"This is a reasoning section", "This is the rest", {}}},
    {"qwen3", "", "\n<think>\n a\nb \n</think>\n\n c\n", {"a\nb", "c\n", {}}},
    {"qwen3", "", " no thoughts", {"", " no thoughts", {}}},
    {"qwen3", "", "<think>cut sho</thi", {"cut sho</thi", "", {}}},
    {"qwen3", "assistant\n<think>\n", "so</think>yes", {"so", "yes", {}}},
    {"qwen3", "assistant\n<think>\n", "<think>so</think>yes", {"so", "yes", {}}},
    {"qwen3", "<think>\n\n</think>\n\n", " <think> is a tag", {"", " <think> is a tag", {}}},
    {"qwen3", "", "a</think>b", {"", "ab", {}}},
    {"qwen3", "", "<think>a</think>b<think>c</think>", {"a", "b<think>c</think>", {}}},
    {"qwen3",
     "",
     "<think>a</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     {"a", "", {{"f", "{}"}}}},
    {"qwen3", "<think>", "a <tool_call> is\n</think>b", {"a <tool_call> is", "b", {}}},
    {"deepseek_r1",
     "",
     "This is a reasoning section</think>This is the rest",
     {"This is a reasoning section", "This is the rest", {}}},
    {"deepseek_r1", "", "<think>a</think>", {"a", "", {}}},
    {"deepseek_r1", "", "never ends", {"never ends", "", {}}},
    {"deepseek_r1", "</think>", "b", {"", "b", {}}},
};
INSTANTIATE_TEST_SUITE_P(All, AnswerThoughts, ::testing::ValuesIn(kThoughts));

}  // namespace
}  // namespace tern::chat
