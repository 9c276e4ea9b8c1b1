// Tools in messages: over a template without words for them, a dialogue reads as the published template of the format's
// own models writes it.
#include "chat/agent_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "chat/supervised.h"
#include "chat/template_messages.h"
#include "io/json.h"

namespace tern::chat {
namespace {

constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "get_weather", "description": "Gets the weather.", "parameters": )"
    R"({"type": "object", "properties": {"city": {"type": "string", "description": "The city"}, "days": {"type": )"
    R"("integer", "minimum": 1}}, "required": ["city"]}}}, {"name": "now", "description": "Die Zeit – jetzt"}])";

ChatTemplate published(const std::string& name) {
  const std::string file = TERN_TEST_DATA "/templates/" + name + ".jinja";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return ChatTemplate::parse(text.str(), name).value();
}

// A question, a call beside words, two calls at once, their results, an answer, and another question.
std::vector<Message> dialogue() {
  return {{"system", "Be brief.", {}, {}},
          {"user", "How is it in Zürich?", {}, {}},
          {"assistant", "Let me look.", {}, {}},
          {"tool_call", R"({"name": "get_weather", "arguments": {"city": "Zürich \"HB\"", "days": 2}})", {}, {}},
          {"tool_response", R"({"sky": "clear"})", {}, {}},
          {"tool_call", R"({"name": "get_weather", "arguments": {"city": "Bern"}})", {}, {}},
          {"tool_call", R"({"name": "now", "arguments": {"zone": ["CET", 1.5, null, true]}})", {}, {}},
          {"tool_response", "rain", {}, {}},
          {"tool_response", "12:00", {}, {}},
          {"assistant", "Clear there, rain in Bern.", {}, {}},
          {"user", "Thanks", {}, {}}};
}

std::string rendered(const ChatTemplate& chat_template, const std::vector<Message>& messages, const char* tools,
                     const AgentTemplate* agent = nullptr) {
  jinja::Values values = template_messages(messages).value();
  const io::Json json = io::parse_json(tools, "tools").value();
  ChatInput input;
  input.add_generation_prompt = true;
  if (agent != nullptr) {
    values = agent->apply(values, &json);
  } else {
    input.tools = &json;
  }
  input.values = &values;
  return chat_template.render(input).value();
}

struct Own {
  const char* format;
  const char* model;  // whose published template has tools of its own
};

class AgentTemplates : public ::testing::TestWithParam<Own> {};

// The tools as OpenAI writes them: a published template shows them as they are given.
TEST_P(AgentTemplates, ReadAsThePublishedTemplateWritesThem) {
  const ChatTemplate chat_template = published(GetParam().model);
  const AgentTemplate agent = AgentTemplate::create(GetParam().format, chat_template).value();
  const std::string tools = std::string(kTools).substr(0, std::string(kTools).find(", {\"name\": \"now\"")) + "]";
  EXPECT_EQ(rendered(chat_template, dialogue(), tools.c_str(), &agent),
            rendered(chat_template, dialogue(), tools.c_str()));
}

INSTANTIATE_TEST_SUITE_P(Formats, AgentTemplates,
                         testing::Values(Own{"hermes", "published/Qwen-Qwen2.5-7B-Instruct"},
                                         Own{"hermes", "published/Qwen-QwQ-32B"},
                                         Own{"qwen3_5", "published/Qwen3.5-4B"}, Own{"glm4_5", "published/GLM-4.6"}));

// A template that shows every message, whatever its role.
ChatTemplate any_role() {
  return ChatTemplate::parse("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "any.jinja").value();
}

// The contents of the messages of one role, in order.
std::vector<std::string> contents(const jinja::Values& messages, std::string_view role) {
  std::vector<std::string> out;
  for (const jinja::Value& message : messages) {
    if (message.dict().get("role")->text() == role) out.push_back(message.dict().get("content")->text());
  }
  return out;
}

// What ms-swift writes of the same tools, calls and results.
TEST(AgentTemplate, WritesWhatMsSwiftWrites) {
  const io::Json golden = io::read_json_file(TERN_TEST_DATA "/templates/agent_templates.json").value();
  std::vector<Message> messages = {{"system", golden["system"].text(), {}, {}},
                                   {"user", golden["question"].text(), {}, {}}};
  for (const io::Json& call : golden["calls"]) messages.push_back({"tool_call", call.dump(), {}, {}});
  for (const io::Json& text : golden["responses"]) messages.push_back({"tool_response", text.text(), {}, {}});
  const jinja::Values values = template_messages(messages).value();
  int compared = 0;
  for (const auto& [name, wanted] : golden["formats"].items()) {
    SCOPED_TRACE(name);
    const AgentTemplate agent = AgentTemplate::create(name, any_role()).value();
    const jinja::Values found = agent.apply(values, &golden["tools"]);
    // ms-swift drops the system message beside GLM-4's tools; here it stands behind them, as in the published template.
    const std::string behind = name == "glm4" ? "<|system|>\n" + golden["system"].text() : "";
    EXPECT_EQ(contents(found, "system"), std::vector<std::string>{wanted["system"].text() + behind});
    EXPECT_EQ(contents(found, "user").front(), wanted["question"].text());
    if (const io::Json* calls = wanted.find("calls")) {
      std::string text = calls->text();  // GLM's end with the token that ends the turn, which the template writes
      if (name == "glm4_5") text.resize(text.size() - std::string_view("<|observation|>").size());
      EXPECT_EQ(contents(found, "assistant"), std::vector<std::string>{text});
    }
    if (const io::Json* responses = wanted.find("responses")) {
      EXPECT_EQ(contents(found, "user").back(), responses->text());
    }
    ++compared;
  }
  EXPECT_EQ(compared, 8);
  EXPECT_EQ(agent_formats().size(), 14U);
}

// Formats whose calls and results are lines of the assistant's text.
TEST(AgentTemplate, WritesTurnsThatGoOnAsMsSwiftDoes) {
  const io::Json golden = io::read_json_file(TERN_TEST_DATA "/templates/agent_templates.json").value();
  const Message question{"user", golden["question"].text(), {}, {}};
  const std::vector<Message> results = {{"tool_response", golden["responses"][0].text(), {}, {}},
                                        {"tool_response", golden["responses"][1].text() + "\n", {}, {}}};
  int compared = 0, standalone = 0;
  for (const auto& [name, wanted] : golden["inline"].items()) {
    SCOPED_TRACE(name);
    const AgentTemplate agent = AgentTemplate::create(name, any_role()).value();
    // What the assistant's turn becomes of a dialogue's messages behind the question.
    const auto turn = [&](std::vector<Message> said) {
      said.insert(said.begin(), question);
      said.insert(said.end(), results.begin(), results.end());
      const jinja::Values values = template_messages(said).value();
      EXPECT_TRUE(agent.goes_on(values));
      const auto found = contents(agent.apply(values, nullptr), "assistant");
      return found.size() == 1 ? found[0] : std::string("several");
    };
    std::vector<Message> calls = {{"assistant", "Let me look.\n", {}, {}}};
    for (const io::Json& call : golden["calls"]) calls.push_back({"tool_call", call.dump(), {}, {}});
    EXPECT_EQ(turn(calls), wanted["turn"][0].text() + wanted["turn"][1].text());
    EXPECT_EQ(turn({{"assistant", "No call.", {}, {}}}), wanted["plain"].text());
    const bool is_react = name.starts_with("react");
    const std::string own = is_react ? "Action: f\nAction Input: 1" : "✿FUNCTION✿: f\n✿ARGS✿: 1";
    EXPECT_EQ(turn({{"assistant", own, {}, {}}}), wanted["own"].text());
    const auto system = [&](std::vector<Message> messages, const io::Json& tools) {
      return contents(agent.apply(template_messages(messages).value(), &tools), "system").at(0);
    };
    EXPECT_EQ(system({{"system", golden["system"].text(), {}, {}}, question}, golden["tools"]),
              wanted["system"].text());
    EXPECT_EQ(system({question}, golden["plain_tools"]), wanted["bare"].text());
    EXPECT_EQ(agent.stop(), is_react ? "Observation:" : "✿RESULT✿:");
    EXPECT_FALSE(agent.goes_on(template_messages({question}).value()));
    const jinja::Values behind = template_messages({question, results[0], results[1]}).value();
    EXPECT_FALSE(agent.goes_on(behind)) << "a question's result is no assistant's turn";
    if (const io::Json* asked = wanted.find("standalone")) {
      EXPECT_EQ(contents(agent.apply(behind, nullptr), "user"), std::vector<std::string>{asked->text()});
      ++standalone;
    } else {
      EXPECT_EQ(catching([&] { return agent.apply(behind, nullptr); }).error().line(),
                "messages: expected a tool's result behind a call, as " + name +
                    " writes it, found one behind the role user; put the call before it");
    }
    ++compared;
  }
  EXPECT_EQ(compared, 6);
  EXPECT_EQ(standalone, 2);
}

// The rendered dialogue, with what is learned of it in brackets.
std::string learned_of(const std::vector<Message>& messages, LossScale scale = LossScale::every_turn) {
  const ChatTemplate chat_template = ChatTemplate::parse(
                                         "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
                                         "{% if add_generation_prompt %}<assistant>{% endif %}",
                                         "any.jinja")
                                         .value();
  const AgentTemplate agent = AgentTemplate::create("react_en", chat_template).value();
  const jinja::Values values = agent.apply(template_messages(messages).value(), nullptr, true);
  ChatInput input;
  input.values = &values;
  const auto text = supervised_text(chat_template, input, {scale, {}});
  if (!text) return text.error().line();
  std::string out = text->samples.at(0).text;
  for (auto span = text->samples[0].spans.rbegin(); span != text->samples[0].spans.rend(); ++span) {
    out.insert(span->end, span->weight == 1 ? "]" : "]*");
    out.insert(span->begin, "[");
  }
  return out;
}

TEST(AgentTemplate, ResultsWithinATurnAreNotLearned) {
  const Message call{"tool_call", R"({"name": "f", "arguments": {}})", {}, {}};
  const Message result{"tool_response", "12", {}, {}};
  const Message question{"user", "q", {}, {}};
  const Message answer{"assistant", "It is 12.", {}, {}};
  EXPECT_EQ(learned_of({question, call, result, answer, question, answer}),
            "<user>q</><assistant>[Action: f\nAction Input: {}\nObservation:]12\n[It is 12.</>]<user>q</>"
            "<assistant>[It is 12.</>]");
  EXPECT_EQ(learned_of({question, call, result, call, result, answer}),
            "<user>q</><assistant>[Action: f\nAction Input: {}\nObservation:]12\n[Action: f\nAction Input: "
            "{}\nObservation:]12\n[It is 12.</>]");
  EXPECT_EQ(learned_of({question, call, result, answer}, LossScale::all),
            "[<user>q</><assistant>Action: f\nAction Input: {}\nObservation:12\nIt is 12.</>]");
  EXPECT_EQ(learned_of({question, call, result, answer, question, answer}, LossScale::last_round),
            "<user>q</><assistant>Action: f\nAction Input: {}\nObservation:12\nIt is 12.</><user>q</>"
            "<assistant>[It is 12.</>]");
  const auto weighted = [](Message message, double loss) {
    message.loss = loss;
    return message;
  };
  EXPECT_EQ(learned_of({question, weighted(call, 0), result, answer}),
            "<user>q</><assistant>Action: f\nAction Input: {}\nObservation:12\n[It is 12.</>]");
  EXPECT_EQ(learned_of({question, weighted(call, 0.5), result, weighted(answer, 0)}),
            "<user>q</><assistant>[Action: f\nAction Input: {}\nObservation:]*12\nIt is 12.[</>]*");
  EXPECT_EQ(learned_of({question, weighted(call, 0), result, weighted(answer, 0)}),
            "<user>q</><assistant>Action: f\nAction Input: {}\nObservation:12\nIt is 12.</>");
  EXPECT_EQ(catching([&] {
              return learned_of({question, weighted(call, 0.5), result, answer});
            })
                .error()
                .line(),
            "messages: expected one weight of loss, or 0, in all that an assistant says around a tool's results, found "
            "two; give its messages the same `loss`");
}

TEST(AgentTemplate, CallsOfMistralAndGlmAreJson) {
  const jinja::Values messages = template_messages(dialogue()).value();
  const auto assistant = [&](const char* format) {
    return contents(AgentTemplate::create(format, any_role()).value().apply(messages, nullptr), "assistant");
  };
  EXPECT_EQ(assistant("mistral")[0], R"(Let me look.[TOOL_CALLS][{"name": "get_weather", "arguments": )"
                                     R"({"city": "Zürich \"HB\"", "days": 2}}])");
  EXPECT_EQ(assistant("glm4")[1],
            "get_weather\n{\"city\": \"Bern\"}<|assistant|>now\n{\"zone\": [\"CET\", 1.5, null, true]}");
  EXPECT_EQ(contents(AgentTemplate::create("glm4", any_role()).value().apply(messages, nullptr), "observation"),
            (std::vector<std::string>{"{\"sky\": \"clear\"}", "rain", "12:00"}));
}

// DeepSeek's own template has words for calls and results, and none for tools.
TEST(AgentTemplate, DeepSeeksCallsReadAsItsOwnTemplateWritesThem) {
  const ChatTemplate chat_template = published("published/deepseek-ai-DeepSeek-V3.1");
  const AgentTemplate agent = AgentTemplate::create("deepseek_v3_1", chat_template).value();
  EXPECT_EQ(rendered(chat_template, dialogue(), "[]", &agent), rendered(chat_template, dialogue(), "[]"));
}

TEST(AgentTemplate, ToolsMakeASystemMessageWhereThereIsNone) {
  const jinja::Values messages = template_messages({{"user", "q", {}, {}}}).value();
  const io::Json tools = io::parse_json(kTools, "tools").value();
  const jinja::Values found = AgentTemplate::create("hermes", any_role()).value().apply(messages, &tools);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(contents(found, "system")[0].find("# Tools\n"), 0U);
  const std::string bare = R"({"type": "function", "function": {"name": "now", "description": "Die Zeit – jetzt"}})";
  EXPECT_NE(contents(found, "system")[0].find("\n" + bare + "\n</tools>"), std::string::npos)
      << contents(found, "system")[0];
  EXPECT_EQ(AgentTemplate::create("hermes", any_role()).value().apply(messages, nullptr).size(), 1U);
}

TEST(AgentTemplate, WhatCannotBeWrittenIsRefused) {
  EXPECT_EQ(AgentTemplate::create("hermess", any_role()).error().line(),
            "there is no agent template hermess; choose one of hermes, qwen3_coder, qwen3_5, llama3, mistral, "
            "deepseek_v3_1, glm4, glm4_5, react_en, react_zh, qwen_en, qwen_zh, qwen_en_parallel, qwen_zh_parallel.");
  const ChatTemplate two_roles =
      ChatTemplate::parse("{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}{% endfor %}",
                          "two.jinja")
          .value();
  EXPECT_EQ(AgentTemplate::create("llama3", two_roles).error().line(),
            "--agent_template llama3 writes a tool's answer as a message of the role tool, which two.jinja does not "
            "show; choose another one, such as hermes, or another --template.");
  EXPECT_TRUE(AgentTemplate::create("hermes", two_roles).ok());
  const auto refused = [](const char* format, const char* tools, const std::vector<Message>& messages) {
    const io::Json json = io::parse_json(tools, "tools").value();
    const AgentTemplate agent = AgentTemplate::create(format, any_role()).value();
    return catching([&] { return agent.apply(template_messages(messages).value(), &json); }).error().line();
  };
  const std::vector<Message> question = {{"user", "q", {}, {}}};
  const std::string mend = R"(; write them as [{"type": "function", "function": {"name": "...", ...}}])";
  EXPECT_EQ(refused("hermes", R"({"a": 1})", question), "tools: expected an array, found object" + mend);
  EXPECT_EQ(refused("hermes", "[1]", question), "tools[0]: expected an object, found number" + mend);
  EXPECT_EQ(refused("hermes", R"([{"function": 5}])", question),
            "tools[0]: expected a function with a name, found number" + mend);
  EXPECT_EQ(refused("hermes", R"([{"description": "d"}])", question),
            "tools[0]: expected a function with a name, found one without" + mend);
  EXPECT_EQ(refused("qwen3_coder", kTools,
                    {{"user", "q", {}, {}}, {"tool_call", R"({"name": "f", "arguments": "no object"})", {}, {}}}),
            "the call of f: expected arguments as an object, found str; write them as {\"NAME\": VALUE}");
  EXPECT_EQ(refused("react_en", R"([{"name": "f"}])", question),
            "tools[0]: expected a description, which react_en writes, found none; say what the function does");
  EXPECT_EQ(refused("react_zh", "[]", {{"tool_response", "r", {}, {}}}),
            "messages: expected a tool's result behind a call or a question, as react_zh writes it, found one at the "
            "beginning; put the call before it");
  EXPECT_EQ(refused("llama3", kTools, {{"system", "s", {}, {}}}),
            "messages: expected a question, into which the tools go, found none; give it a user message");
}

}  // namespace
}  // namespace tern::chat
