// Answers of each family, with the texts that vLLM tests its own parsers with; expectations are facts about those
// texts.
#include "chat/answer_parser.h"

#include <gtest/gtest.h>

#include <set>

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
     "<tool_call>{\"name\": \"f\ng\", \"arguments\": {}}",
     {"", "<tool_call>{\"name\": \"f\ng\", \"arguments\": {}}", {}}},
    {"hermes",
     "<tool_call>oh <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     {"", "<tool_call>oh ", {{"f", "{}"}}}},
};
INSTANTIATE_TEST_SUITE_P(Hermes, AnswerCalls, ::testing::ValuesIn(kHermes));

// Each family in its own words: text before, two calls, and what models of it do wrongly.
const AnswerCase kFamilies[] = {
    {"llama3_json",
     R"({"name": "searchTool", "parameters": {"query": "test query"}})",
     {"", "", {{"searchTool", R"({"query": "test query"})"}}}},
    {"llama3_json",
     R"(<|python_tag|>{"name": "a", "parameters": {"q": "1"}}; {"type": "function", "name": "b", "arguments": {}})",
     {"", "", {{"a", R"({"q": "1"})"}, {"b", "{}"}}}},
    {"llama3_json",
     R"(Here is the result: {"name": "a", "parameters": {"q": {"x": [1]}}} Would you?)",
     {"", "Here is the result: Would you?", {{"a", R"({"q": {"x": [1]}})"}}}},
    {"llama4_json", R"({"answer": {"value": 1}} {not json})", {"", R"({"answer": {"value": 1}} {not json})", {}}},
    {"granite",
     R"(<|tool_call|> [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])",
     {"", "", {{"f", R"({"a": 1})"}, {"g", "{}"}}}},
    {"granite4", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", {"", "", {{"f", "{}"}}}},
    {"xlam", R"([{"name": "f", "arguments": {"a": 1}}])", {"", "", {{"f", R"({"a": 1})"}}}},
    {"xlam", "So:\n```json\n[{\"name\": \"f\", \"arguments\": {}}]\n```", {"", "So:", {{"f", "{}"}}}},
    {"xlam", R"([1, 2])", {"", "[1, 2]", {}}},
    {"phi4_mini_json", R"(functools[{"name": "f", "arguments": {"a": 1}}])", {"", "", {{"f", R"({"a": 1})"}}}},
    {"jamba",
     "<tool_calls>[\n    {\"name\": \"f\", \"arguments\": {}},\n    {\"name\": \"g\", \"arguments\": "
     "{}}\n]</tool_calls>",
     {"", "", {{"f", "{}"}, {"g", "{}"}}}},
    {"minimax",
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n</tool_calls>",
     {"", "", {{"f", "{}"}, {"g", "{}"}}}},
    {"internlm",
     "Let me.<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|action_end|>",
     {"", "Let me.", {{"f", "{\"a\": 1}"}}}},
    {"granite",
     R"(<|tool_call|>[{"name": "f", "arguments": {}}]<|tool_call|>{"name": "g", "arguments": {}} and more)",
     {"", "and more", {{"f", "{}"}, {"g", "{}"}}}},
    // Mistral, old and new.
    {"mistral",
     R"([TOOL_CALLS][{"name": "add", "arguments": {"a": 3.5, "b": 4}}])",
     {"", "", {{"add", R"({"a": 3.5, "b": 4})"}}}},
    {"mistral",
     R"([TOOL_CALLS] [{"id": "abcdefghi", "name": "f", "arguments": {}}, {"name": "g", "arguments": {"x": []}}])",
     {"", "", {{"f", "{}", "abcdefghi"}, {"g", R"({"x": []})"}}}},
    {"mistral",
     R"(Now [TOOL_CALLS]add_this[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{} )",
     {"", "Now ", {{"add_this", R"({"a": 1})"}, {"g", "{}", "123456789"}}}},
    {"mistral", R"([TOOL_CALLS]f{"a": {"b": "}"}})", {"", "", {{"f", R"({"a": {"b": "}"}})"}}}},
    {"mistral",
     R"([TOOL_CALLS]f[CALL_ID]a[ARGS]{}[TOOL_CALLS]g[CALL_ID]b[ARGS]{})",
     {"", "", {{"f", "{}", "a"}, {"g", "{}", "b"}}}},
    {"mistral", R"([TOOL_CALLS][oops)", {"", "[TOOL_CALLS][oops", {}}},
    // A name, a marker, arguments.
    {"deepseek_v3",
     "Ok\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
     "1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><"
     "｜tool▁"
     "calls▁end｜>",
     {"", "Ok", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}},
    {"deepseek_v31",
     "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>foo<｜tool▁sep｜>{\"x\":1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>"
     "bar<｜"
     "tool▁sep｜>{\"y\":2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"", "Ok", {{"foo", "{\"x\":1}"}, {"bar", "{\"y\":2}"}}}},
    {"kimi_k2",
     "Go. <|tool_calls_section_begin|> <|tool_call_begin|> functions.get_weather:0 <|tool_call_argument_begin|> "
     "{\"city\": \"Beijing\"} <|tool_call_end|> <|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_"
     "call_end|><|tool_calls_section_end|>",
     {"",
      "Go. ",
      {{"get_weather", "{\"city\": \"Beijing\"}", "functions.get_weather:0"}, {"now", "{}", "functions.now:1"}}}},
    // Tags: values take the types of the tool's schema.
    {"qwen3_coder",
     "Sure.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nSan \"F\"\nx\n</parameter>\n<parameter=days>\n3\n"
     "</parameter>\n<parameter=ratio>\n1.5e3\n</parameter>\n<parameter=now>\nTrue\n</parameter>\n<parameter=where>\n"
     "{\"a\": [1]}\n</parameter>\n<parameter=list>\n[\"x\"]\n</parameter>\n<parameter=either>\nnull\n</parameter>\n"
     "<parameter=unknown>\n7\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
     "</tool_call>",
     {"",
      "Sure.",
      {{"get_weather",
        R"({"city": "San \"F\"\nx", "days": 3, "ratio": 1.5e3, "now": true, "where": {"a": [1]}, "list": ["x"], )"
        R"("either": null, "unknown": "7"})"},
       {"now", "{}"}}}},
    {"qwen3_xml",
     "<function=get_weather>\n<parameter=days>\nmany\n</parameter>\n<parameter=city>a</b></parameter>\n</function>\n"
     "</tool_call>",
     {"", "", {{"get_weather", R"({"days": "many", "city": "a</b>"})"}}}},
    {"qwen3_coder",
     "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n",
     {"", "<tool_call>\n", {{"now", "{}"}}}},
    {"qwen3_coder", "<tool_call>\n<fun", {"", "<tool_call>\n<fun", {}}},
    {"qwen3_coder",
     "<function=now>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n</function>",
     {"", "", {{"now", R"({"a": "1"})"}}}},
    {"seed_oss",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Bern</parameter>\n</function>\n</seed:tool_call>",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}}}},
    {"minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bern</parameter>\n<parameter "
     "name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
     {"", "", {{"get_weather", R"({"city": "Bern", "days": 2})"}, {"now", "{}"}}}},
    {"deepseek_v32",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">SF</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"true\">42</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"other\" string=\"false\">[1]</｜DSML｜parameter>\n<｜DSML｜parameter name=\"more\" "
     "string=\"true\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     {"", "", {{"get_weather", R"({"city": "SF", "days": 42, "other": [1], "more": "1"})"}}}},
    {"glm45",
     "I see.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>x</arg_key>\n"
     "<arg_value>[1, 2]</arg_value>\n</tool_call>\n<tool_call>now</tool_call>",
     {"", "I see.", {{"get_weather", R"({"city": "Bern", "x": [1, 2]})"}, {"now", "{}"}}}},
    // Python.
    {"pythonic",
     R"([get_weather(city='San Francisco', metric="celsius"), now()])",
     {"", "", {{"get_weather", R"({"city": "San Francisco", "metric": "celsius"})"}, {"now", "{}"}}}},
    {"pythonic",
     R"([f(a=[1, -2.5,], b={'x': None, "y": {}}, c=(True,), d='it\'s\n\u00e9"', e=.5)])",
     {"", "", {{"f", R"({"a": [1, -2.5], "b": {"x": null, "y": {}}, "c": [true], "d": "it's\né\"", "e": 0.5})"}}}},
    {"pythonic", "[1] is a footnote", {"", "[1] is a footnote", {}}},
    {"pythonic", "see [f(a=1)]", {"", "see [f(a=1)]", {}}},
    {"llama4_pythonic", "<|python_start|>[f(a=1)]<|python_end|>", {"", "", {{"f", R"({"a": 1})"}}}},
    {"lfm2", "<|tool_call_start|>[f(a=1)]<|tool_call_end|>Look.", {"", "Look.", {{"f", R"({"a": 1})"}}}},
    {"olmo3", "<function_calls>\nf(a=1)\ng()\n</function_calls>", {"", "", {{"f", R"({"a": 1})"}, {"g", "{}"}}}},
    // Harmony.
    {"openai",
     "<|channel|>analysis<|message|>Thinking\n<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>{\"city\": \"Tokyo\"}<|call|>",
     {"Thinking\n", "", {{"get_weather", "{\"city\": \"Tokyo\"}"}}}},
    {"openai",
     " to=functions.now<|channel|>commentary json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>Hi "
     "<b><|return|>",
     {"", "Hi <b>", {{"now", "{}"}}}},
    {"openai", "<|channel|>commentary to=functions.now<|message|>{}\n<|call|>", {"", "", {{"now", "{}"}}}},
    {"openai", "<|channel|>commentary<|message|>I'll look.<|end|>", {"", "I'll look.", {}}},
    {"openai", "Words without a header", {"", "Words without a header", {}}},
};
INSTANTIATE_TEST_SUITE_P(Families, AnswerCalls, ::testing::ValuesIn(kFamilies));

TEST(AnswerParser, ReadsEveryFormatThatItNames) {
  std::set<std::string> tried = {"hermes", "glm47"};
  for (const AnswerCase& one : kFamilies) tried.insert(one.format);
  for (const std::string& name : tool_call_formats()) EXPECT_TRUE(tried.contains(name)) << name;
}

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

// An answer that ends in the arguments, as at a limit of tokens, gives what there is of them and no markers.
TEST(AnswerParser, CutArgumentsLeakNoMarkers) {
  const std::string text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nx\n</parameter>\n<param";
  ParserOptions options = reading("qwen3_coder");
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", "", {{"get_weather", "{\"city\": \"x\""}}}));
  options.whole_calls = true;
  EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", text, {}}));
}

TEST(AnswerParser, SaysWhoseMarkersAreSpecialTokens) {
  EXPECT_FALSE(keeps_special_tokens({}));
  EXPECT_FALSE(keeps_special_tokens({"granite", "olmo3"}));
  EXPECT_TRUE(keeps_special_tokens({"qwen3", ""}));
  EXPECT_TRUE(keeps_special_tokens({"", "mistral"}));
  EXPECT_TRUE(keeps_special_tokens({"openai_gptoss", ""}));
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
    {"mistral", "", "[THINK]a[/THINK]b", {"a", "b", {}}},
    {"seed_oss", "", "<seed:think>a</seed:think>b", {"a", "b", {}}},
    {"granite", "", "Here is my thought process: a Here is my response: b", {"a", "b", {}}},
    {"granite", "", "<think>a</think><response>b</response>", {"a", "b", {}}},
    {"ernie45", "", "a\n</think>\n\n\n<response>\nb\n</response>\n", {"a", "b\n", {}}},
    {"hunyuan_a13b", "", "<think>\na\n</think>\n<answer>\nb\n</answer>", {"a", "b", {}}},
    {"openai_gptoss",
     "<|start|>assistant<|channel|>analysis<|message|>",
     "a<|end|><|start|>assistant<|channel|>final"
     "<|message|>b",
     {"a", "b", {}}},
    {"glm45", "", "<think></think>b", {"", "b", {}}},
    {"deepseek_v3", "</think>", "b", {"", "b", {}}},
    {"qwen3", "<think>a</think>b<|im_end|>\n<|im_start|>assistant\n", "<think>c</think>d", {"c", "d", {}}},
    {"qwen3", "what is <think>?<|im_end|>\n<|im_start|>assistant\n", "A tag.", {"", "A tag.", {}}},
    {"qwen3", "assistant\n<think>\nSo far", " and on</think>d", {"and on", "d", {}}},
    {"kimi_k2", "", "<think>a</think>b", {"a", "b", {}}},
    {"minimax_m2", "", "a</think>b", {"a", "b", {}}},
    {"step3", "", "a</think>b", {"a", "b", {}}},
    {"holo2", "", "<think>a</think>b", {"a", "b", {}}},
    {"olmo3", "", "<think>a</think>b", {"a", "b", {}}},
    {"nemotron_v3", "", "<think>a</think>b", {"a", "b", {}}},
};
INSTANTIATE_TEST_SUITE_P(All, AnswerThoughts, ::testing::ValuesIn(kThoughts));

TEST(AnswerParser, ReadsEveryFormatOfThoughtsThatItNames) {
  std::set<std::string> tried;
  for (const AnswerThought& one : kThoughts) tried.insert(one.format);
  for (const std::string& name : reasoning_formats()) EXPECT_TRUE(tried.contains(name)) << name;
}

// Qwen3.5 calls without closing its thoughts.
TEST(AnswerParser, ACallEndsThoughts) {
  ParserOptions options = reading("qwen3_coder", "qwen3");
  options.prompt_tail = "<think>\n";
  EXPECT_EQ(read_answer(options, "hm\n<tool_call>\n<function=now>\n</function>\n</tool_call>"),
            (ReadAnswer{"hm", "", {{"now", "{}"}}}));
}

}  // namespace
}  // namespace tern::chat
