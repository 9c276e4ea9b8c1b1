// Laws of reading answers: what a family's template writes reads back, whatever the text nothing gets lost or crashes,
// and work is linear.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "answer_reading.h"
#include "base/strings.h"
#include "chat/agent_template.h"
#include "chat/answer_formats/call_stage.h"
#include "chat/chat_template.h"
#include "chat/template_messages.h"
#include "io/json.h"

namespace tern::chat {
namespace {

constexpr const char* kLawTools =
    R"([{"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object", )"
    R"("properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "deep": {"type": "object"}, "on": )"
    R"({"type": "boolean"}, "list": {"type": "array"}}}}}, {"type": "function", "function": {"name": "now", )"
    R"("description": "d", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}}])";

std::string template_text(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(TERN_TEST_DATA "/templates/" + name + ".jinja").rdbuf();
  return text.str();
}

constexpr const char* kFirst =
    R"({"city": "Zürich \"HB\"\n{}<b>", "days": 2, "deep": {"a": [1.5, null, {"b": "c"}]}, "on": true, "list": ["x", []]})";
constexpr const char* kSecond = R"({"zone": "CET"})";

std::string rendering(const ChatTemplate& chat_template, bool two, const AgentTemplate* agent, bool answered) {
  std::vector<Message> messages = {{"user", "How is it?", {}, {}}};
  if (answered) {
    messages.push_back({"tool_call", cat(R"({"name": "get_weather", "arguments": )", kFirst, "}"), {}, {}});
    if (two) messages.push_back({"tool_call", cat(R"({"name": "now", "arguments": )", kSecond, "}"), {}, {}});
  }
  jinja::Values values = template_messages(messages).value();
  const io::Json tools = io::parse_json(kLawTools, "tools").value();
  ChatInput input;
  input.add_generation_prompt = !answered;
  if (agent != nullptr) {
    values = agent->apply(values, &tools);
  } else {
    input.tools = &tools;
  }
  input.values = &values;
  return chat_template.render(input).value();
}

// What the template writes behind the prompt, and the marker that ends a turn, is what a model of it answers.
void expect_reads_back(const ChatTemplate& chat_template, const AnswerFormats& formats, bool two,
                       const AgentTemplate* agent = nullptr) {
  const std::string prompt = rendering(chat_template, two, agent, false);
  const std::string whole = rendering(chat_template, two, agent, true);
  std::size_t same = 0;
  while (same < prompt.size() && same < whole.size() && prompt[same] == whole[same]) ++same;
  // Two markers that begin alike are two markers.
  const std::size_t open = whole.rfind('<', same - 1);
  if (open != std::string::npos && whole.find('>', open) >= same) same = open;
  std::string answer = whole.substr(same);
  for (const char* end : {"<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "</s>", "<｜end▁of▁sentence｜>", "<seed:eos>",
                          "<|user|>", "<|eom_id|>", "<end_of_sentence>", "<|return|>"}) {
    if (const std::size_t at = answer.find(end); at != std::string::npos) answer.resize(at);
  }
  if (formats.reasoning == "deepseek_r1") answer.insert(0, "hm</think>");  // which the template drops
  ParserOptions options;
  options.formats = formats;
  options.tools_json = kLawTools;
  options.prompt_tail = prompt.substr(0, same);
  const ReadAnswer read = read_answer(options, answer);
  ASSERT_EQ(read.calls.size(), two ? 2U : 1U) << answer << "\n" << read;
  EXPECT_EQ(std::string(trim(read.content)), "") << answer;
  EXPECT_EQ(read.calls[0].name, "get_weather");
  EXPECT_EQ(io::parse_json(read.calls[0].arguments, "arguments").value(), io::parse_json(kFirst, "first").value())
      << read;
  if (!two) return;
  EXPECT_EQ(read.calls[1].name, "now");
  EXPECT_EQ(io::parse_json(read.calls[1].arguments, "arguments").value(), io::parse_json(kSecond, "second").value());
}

struct OfTemplate {
  const char* name;
  const char* tool_call;
  const char* reasoning;
  bool writes;  // calls as such
};
const OfTemplate kOfTemplates[] = {
    {"published/ByteDance-Seed-OSS", "seed_oss", "seed_oss", true},
    {"published/GLM-4.6", "glm45", "glm45", true},
    {"published/GLM-4.7-Flash", "glm45", "glm45", true},
    {"published/HuggingFaceTB-SmolLM3-3B", "", "qwen3", false},
    {"published/MiniMax-M1", "minimax", "", true},
    {"published/Mistral-Small-3.2-24B-Instruct-2506", "mistral", "", false},  // it asks for ids
    {"published/Qwen-QwQ-32B", "hermes", "qwen3", true},
    {"published/Qwen-Qwen2.5-7B-Instruct", "hermes", "", true},
    {"published/Qwen-Qwen3-0.6B", "hermes", "qwen3", true},
    {"published/Qwen3-Coder", "qwen3_coder", "", true},
    {"published/Qwen3.5-4B", "qwen3_coder", "qwen3", true},
    {"published/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek_v3", "deepseek_r1", true},
    {"published/deepseek-ai-DeepSeek-V3.1", "deepseek_v31", "deepseek_v3", true},
    {"published/deepseek-ai-DeepSeek-V3.2", "deepseek_v32", "deepseek_v3", true},
    {"published/ibm-granite-granite-3.3-2B-Instruct", "granite", "granite", false},
    {"published/ibm-granite-granite-4.0", "hermes", "", true},
    {"published/microsoft-Phi-3.5-mini-instruct", "", "", false},
    {"published/mistralai-Ministral-3-14B-Reasoning-2512", "mistral", "mistral", true},
    {"published/mistralai-Mistral-Nemo-Instruct-2407", "mistral", "", false},
    {"published/openai-gpt-oss-120b", "openai", "openai_gptoss", true},
    {"published/Apertus-8B-Instruct", "", "", false},
    {"deepseek-r1", "", "deepseek_r1", false},
    {"deepseek-v3", "deepseek_v3", "", true},
    {"gpt-oss", "openai", "openai_gptoss", true},
    {"llama3.1", "llama3_json", "", true},
    {"llama4", "llama4_pythonic", "", false},
    {"mistral-v3", "mistral", "", false},
    {"mistral-v7", "mistral", "", false},
    {"phi4-mini", "phi4_mini_json", "", false},
    {"qwen2.5", "hermes", "", true},
    {"qwen3", "hermes", "qwen3", true},
    {"smollm2", "", "", false},
    {"gemma3", "", "", false},
};

class AnswerTemplates : public ::testing::TestWithParam<OfTemplate> {};

TEST_P(AnswerTemplates, AreKnownByTheirMarkersAndReadBack) {
  const OfTemplate& one = GetParam();
  const std::string text = template_text(one.name);
  ASSERT_FALSE(text.empty()) << one.name;
  const AnswerFormats formats = formats_of_template(text);
  EXPECT_EQ(formats.tool_call, one.tool_call) << one.name;
  EXPECT_EQ(formats.reasoning, one.reasoning) << one.name;
  if (!one.writes) return;
  SCOPED_TRACE(one.name);
  const ChatTemplate chat_template = ChatTemplate::parse(text, one.name).value();
  expect_reads_back(chat_template, formats, false);
  const bool one_at_most = formats.tool_call == "openai" || formats.tool_call == "llama3_json";
  if (!one_at_most) expect_reads_back(chat_template, formats, true);
}
INSTANTIATE_TEST_SUITE_P(All, AnswerTemplates, ::testing::ValuesIn(kOfTemplates));

TEST(AnswerLaws, WhatAgentTemplatesWriteReadsBack) {
  const ChatTemplate chat_template = ChatTemplate::parse(template_text("smollm2"), "smollm2").value();
  const std::pair<const char*, const char*> kinds[] = {
      {"hermes", "hermes"},   {"qwen3_coder", "qwen3_coder"},    {"qwen3_5", "qwen3_coder"}, {"llama3", "llama3_json"},
      {"mistral", "mistral"}, {"deepseek_v3_1", "deepseek_v31"}, {"glm4_5", "glm45"}};
  for (const auto& [agent, format] : kinds) {
    SCOPED_TRACE(agent);
    const AgentTemplate writer = AgentTemplate::create(agent, chat_template).value();
    expect_reads_back(chat_template, {"", format}, false, &writer);
    expect_reads_back(chat_template, {"", format}, true, &writer);
  }
}

const char* const kSeeds[] = {
    "a\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zone\": \"C\\u00e9\"}}\n</tool_call> b",
    "<think>x</think>[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}, \"id\": \"a\"}]",
    "[TOOL_CALLS]f[CALL_ID]1[ARGS]{\"a\": [1e5, -0.5]}",
    "<tool_call>\n<function=now>\n<parameter=zone>\nCET\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>now\n<arg_key>zone</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    "[f(a=1, b={'x': [True, None]}), g()]",
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f "
    "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>",
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
    "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</parameter></invoke></minimax:tool_call>",
};

std::string mutated(std::mt19937& random, std::string text) {
  for (int i = static_cast<int>(random() % 3); i > 0 && !text.empty(); --i) {
    const std::size_t at = random() % text.size(), more = random() % 8;
    switch (random() % 4) {
      case 0:
        text.erase(at, more);
        break;
      case 1:
        text.insert(at, text.substr(random() % text.size(), more));
        break;
      case 2:
        text[at] = "{}[]\"<>|,:=\n a0\\"[random() % 16];
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

// Every format over seeds of every format: cuts don't matter, calls that come whole have an object of arguments, and an
// answer without calls or markers is its text.
TEST(AnswerLaws, HoldForMutatedAnswers) {
  std::mt19937 random(12);  // NOLINT: the same each time
  int with_calls = 0;
  for (const std::string& format : tool_call_formats()) {
    for (int round = 0; round < 150; ++round) {
      const std::string text = mutated(random, kSeeds[random() % std::size(kSeeds)]);
      ParserOptions options;
      options.formats = {round % 3 == 0 ? "qwen3" : "", format};
      options.tools_json = kLawTools;
      options.whole_calls = round % 2 == 0;
      const ReadAnswer whole = read_pieces(options, {text});
      std::vector<std::string_view> pieces;
      for (std::size_t at = 0; at < text.size(); at += pieces.back().size()) {
        pieces.push_back(std::string_view(text).substr(at, 1 + random() % 3));
      }
      ASSERT_EQ(read_pieces(options, pieces), whole) << format << ": " << text;
      with_calls += whole.calls.empty() ? 0 : 1;
      if (!options.whole_calls) continue;
      for (const ReadCall& call : whole.calls) {
        const auto arguments = io::parse_json(call.arguments, "arguments");
        if (!arguments.ok() && arguments.error().line().find("key") != std::string::npos) continue;  // twice the same
        ASSERT_TRUE(arguments.ok()) << format << ": " << text << " -> " << call.arguments;
        EXPECT_EQ(arguments.value().type_name(), std::string_view("object")) << text;
      }
    }
  }
  EXPECT_GT(with_calls, 150);
}

TEST(AnswerLaws, WordsAreGivenAsTheyAre) {
  const std::string text = "Plain <words>, [1] {x} and\n\n `code` \n";
  for (const std::string& format : tool_call_formats()) {
    ParserOptions options;
    options.formats.tool_call = format;
    options.tools_json = kLawTools;
    EXPECT_EQ(read_answer(options, text), (ReadAnswer{"", text, {}})) << format;
  }
}

// A megabyte by single bytes: each is looked at a bounded number of times.
TEST(AnswerLaws, WorkIsLinear) {
  const std::string half(std::size_t{1} << 19U, '<');
  const std::string text = half + "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + half + "\"}}</tool_call>";
  CallStage stage(json_format("hermes"));
  AnswerParts parts(true, false);
  std::size_t given = 0;
  for (const char c : text) {
    stage.feed(c, parts);
    for (const AnswerPart& part : parts.take()) given += part.text.size();
  }
  EXPECT_GT(given, 2 * half.size());
  EXPECT_LT(stage.work(), 4 * text.size());
}

}  // namespace
}  // namespace tern::chat
