#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/anthropic/messages_request.h"
#include "server/anthropic/messages_writer.h"
#include "tests/unit/server/fake_exchange.h"
#include "tests/unit/server/sse_events.h"
#include "tests/unit/server/told_answer.h"

namespace tern::server::anthropic {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;

constexpr const char* kHello = R"("model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}])";

MessagesRequest with(const std::string& fields) { return parse_messages(cat("{", kHello, ", ", fields, "}")); }

std::string error_of(const std::string& body) {
  try {
    (void)parse_messages(body);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}
std::string error_with(const std::string& fields) { return error_of(cat("{", kHello, ", ", fields, "}")); }
std::string error_in(const std::string& messages) {
  return error_of(cat(R"({"model": "m", "max_tokens": 8, "messages": )", messages, "}"));
}

// Thoughts, a text and two calls, one without arguments.
std::shared_ptr<FakeExchange> answered(bool stream, StopKind kind = StopKind::tool_calls, std::string stop_text = {}) {
  auto exchange = std::make_shared<FakeExchange>();
  auto writer = messages_writer({"msg_1", "m", stream}, exchange);
  tell_answer(*writer, kind, std::move(stop_text));
  return exchange;
}

// What a client puts together from the events, as Anthropic's reference says.
Json joined(const Events& events) {
  Json message;
  std::string arguments;
  for (const auto& [name, data] : events) {
    if (name == "message_start") message = data["message"];
    if (name == "content_block_start") {
      EXPECT_EQ(data["index"].get<std::size_t>(), message["content"].size());
      message["content"].push_back(data["content_block"]);
      arguments.clear();
    }
    if (name == "content_block_delta") {
      Json& block = message["content"][data["index"].get<std::size_t>()];
      const Json& delta = data["delta"];
      for (const char* key : {"text", "thinking", "signature"}) {
        if (delta.contains(key)) block[key] = block[key].text() + delta[key].text();
      }
      if (delta.contains("partial_json")) arguments += delta["partial_json"].text();
    }
    if (name == "content_block_stop" && !arguments.empty()) {
      message["content"][data["index"].get<std::size_t>()]["input"] = io::parse_json(arguments, "arguments").value();
      arguments.clear();
    }
    if (name == "message_delta") {
      for (const char* key : {"stop_reason", "stop_sequence"}) message[key] = data["delta"][key];
      message["usage"] = data["usage"];
    }
  }
  return message;
}

TEST(Messages, AreReadFieldByField) {
  const MessagesRequest asked = with(R"("system": [{"type": "text", "text": "Be brief.", "cache_control":
      {"type": "ephemeral"}}, {"type": "text", "text": "Be kind."}], "temperature": 0.5, "top_p": 0.9, "top_k": 20,
      "stop_sequences": ["a", "b"], "stream": true, "metadata": {"user_id": "u"},
      "tools": [{"name": "f", "description": "adds", "input_schema": {"type": "object"}}],
      "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
      "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}})");
  const ChatRequest& chat = asked.chat;
  EXPECT_TRUE(asked.stream);
  EXPECT_EQ(chat.model, "m");
  ASSERT_EQ(chat.dialogue.messages.size(), 2U);
  EXPECT_EQ(chat.dialogue.messages[0].role, "system");
  EXPECT_EQ(chat.dialogue.messages[0].content, "Be brief.\nBe kind.");
  EXPECT_EQ(chat.sampling.max_tokens, 8);
  EXPECT_EQ(chat.sampling.temperature, 0.5F);
  EXPECT_EQ(chat.sampling.top_p, 0.9F);
  EXPECT_EQ(chat.sampling.top_k, 20);
  EXPECT_EQ(chat.sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(chat.dialogue.tools_json, R"([{"type":"function","function":{"name":"f","description":"adds",)"
                                      R"("parameters":{"type":"object"}}}])");
  EXPECT_EQ(chat.tool_choice.kind, ToolChoice::Kind::named);
  EXPECT_EQ(chat.tool_choice.name, "f");
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_EQ(chat.constraint.kind, Constraint::Kind::json_schema);
  EXPECT_EQ(chat.constraint.text, R"({"type":"object"})");
  EXPECT_EQ(chat.template_kwargs, R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_FALSE(chat.continue_final_message);
  EXPECT_TRUE(chat.add_generation_prompt);
}

TEST(Messages, BlocksBecomeADialogue) {
  const auto dialogue = parse_messages(R"({"model": "m", "max_tokens": 8, "messages": [
      {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image", "source":
         {"type": "base64", "media_type": "image/png", "data": "AA=="}}, {"type": "text", "text": "What?"}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
         {"type": "text", "text": "I ask."}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content":
         [{"type": "text", "text": "no"}], "is_error": true}, {"type": "text", "text": "Go on."}]},
      {"role": "user", "content": "Please."}, {"role": "assistant", "content": "Well"}]})")
                            .chat.dialogue;
  ASSERT_EQ(dialogue.messages.size(), 5U);
  EXPECT_EQ(dialogue.messages[0].content, "Look:<image>What?");
  EXPECT_EQ(dialogue.images, std::vector<std::string>{"data:image/png;base64,AA=="});
  EXPECT_EQ(dialogue.messages[1].content, "I ask.");
  EXPECT_EQ(dialogue.messages[1].members_json,
            R"({"reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function",)"
            R"("function":{"name":"f","arguments":{"a":1}}}]})");
  EXPECT_EQ(dialogue.messages[2].role, "tool");
  EXPECT_EQ(dialogue.messages[2].content, "Error: no");
  EXPECT_EQ(dialogue.messages[2].members_json, R"({"tool_call_id":"t1"})");
  EXPECT_EQ(dialogue.messages[3].content, "Go on.\nPlease.");
  EXPECT_EQ(dialogue.messages[4].content, "Well");
}

TEST(Messages, WordsBeforeAToolsResultStayBeforeIt) {
  const auto messages = parse_messages(R"({"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": [
      {"type": "text", "text": "First."}, {"type": "tool_result", "tool_use_id": "t", "content": "1"}]}]})")
                            .chat.dialogue.messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].content, "First.");
  EXPECT_EQ(messages[1].content, "1");
}

TEST(Messages, AnswerThatIsBegunIsGoneOnWith) {
  const auto chat = parse_messages(R"({"model": "m", "max_tokens": 8, "messages": [
      {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "{"}]})")
                        .chat;
  EXPECT_TRUE(chat.continue_final_message);
  EXPECT_FALSE(chat.add_generation_prompt);
}

TEST(Messages, ThinkingIsOffUnlessAskedFor) {
  EXPECT_FALSE(with(R"("top_k": 1)").chat.include_reasoning);
  const auto on = parse_messages(R"({"model": "m", "max_tokens": 4096, "thinking": {"type": "enabled",
      "budget_tokens": 2048}, "messages": [{"role": "user", "content": "Hi"}]})")
                      .chat;
  EXPECT_TRUE(on.include_reasoning);
  EXPECT_EQ(on.sampling.thinking_token_budget, 2048);
  EXPECT_EQ(on.template_kwargs, R"({"enable_thinking":true})");
  const auto hidden = with(R"("thinking": {"type": "adaptive", "display": "omitted"})").chat;
  EXPECT_FALSE(hidden.include_reasoning);
  EXPECT_EQ(hidden.template_kwargs, R"({"enable_thinking":true})");
  EXPECT_EQ(with(R"("thinking": {"type": "disabled"})").chat.template_kwargs, R"({"enable_thinking":false})");
}

TEST(Messages, NameTheFieldThatIsWrong) {
  const auto starts = [](const std::string& error, const std::string& with) {
    EXPECT_EQ(error.substr(0, with.size()), with);
  };
  starts(error_of(R"({"max_tokens": 8, "messages": [{"role": "user", "content": "x"}]})"), "field \"model\": ");
  starts(error_of(R"({"model": "m", "messages": [{"role": "user", "content": "x"}]})"),
         "field \"max_tokens\": expected an integer of at least 1, found nothing");
  starts(error_in("[]"), "field \"messages\": ");
  starts(error_in(R"([{"role": "system", "content": "x"}])"), "field \"messages[0].role\": ");
  starts(error_in(R"([{"role": "user", "content": []}])"), "field \"messages[0].content\": ");
  starts(error_in(R"([{"role": "user", "content": [{"type": "document"}]}])"),
         "field \"messages[0].content[0].type\": ");
  starts(error_in(R"([{"role": "user", "content": [{"type": "text", "text": "x", "size": 1}]}])"),
         "field \"messages[0].content[0].size\": ");
  starts(error_in(R"([{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}])"),
         "field \"messages[0].content[0].source.type\": ");
  starts(error_in(R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                   "content": [{"type": "search_result"}]}]}])"),
         "field \"messages[0].content[0].content[0].type\": ");
  starts(error_in(R"([{"role": "user", "content": "x"}, {"role": "assistant", "content":
                   [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}])"),
         "field \"messages\": expected a tool_result");
  starts(error_in(R"([{"role": "user", "content": "x"}, {"role": "assistant", "content":
                   [{"type": "redacted_thinking", "data": "x"}]}])"),
         "field \"messages[1].content[0].type\": ");
  starts(error_with(R"("temperature": 1.5)"), "field \"temperature\": expected a number from 0 to 1");
  starts(error_with(R"("top_k": -1)"), "field \"top_k\": ");
  starts(error_with(R"("stop_sequences": [""])"), "field \"stop_sequences\": ");
  starts(error_with(R"("stop_sequences": "a")"), "field \"stop_sequences\": ");
  starts(error_with(R"("tools": [{"type": "bash_20250124", "name": "bash"}])"), "field \"tools[0].type\": ");
  starts(error_with(R"("tools": [{"name": "f"}])"), "field \"tools[0].input_schema\": ");
  starts(error_with(R"("tool_choice": {"type": "any"})"), "field \"tool_choice\": expected tools");
  starts(error_with(R"("tool_choice": {"type": "some"})"), "field \"tool_choice.type\": ");
  starts(error_with(R"("thinking": {"type": "enabled", "budget_tokens": 2000})"),
         "field \"thinking.budget_tokens\": expected fewer");
  starts(error_with(R"("thinking": {"type": "enabled"})"), "field \"thinking.budget_tokens\": ");
  starts(error_with(R"("output_config": {"format": {"type": "xml"}})"), "field \"output_config.format.type\": ");
  starts(error_with(R"("context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]})"),
         "field \"context_management.edits[0].type\": ");
  starts(error_with(R"("container": "c")"), "field \"container\": expected a field of this route");
  starts(error_with(R"("mcp_servers": [])"), "field \"mcp_servers\": expected a field of this route");
  EXPECT_EQ(error_with(R"("context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})"),
            "no error");
}

TEST(Messages, CountTokensTakesNoSampling) {
  EXPECT_EQ(parse_count_tokens(R"({"model": "m", "system": "s", "messages": [{"role": "user", "content": "x"}]})")
                .dialogue.messages.size(),
            2U);
  EXPECT_THROW((void)parse_count_tokens(cat("{", kHello, "}")), Failure);
}

TEST(MessagesWriter, EventsComeInAnthropicsOrder) {
  const auto exchange = answered(true);
  EXPECT_EQ(exchange->status, 200);
  EXPECT_EQ(exchange->content_type, "text/event-stream; charset=utf-8");
  EXPECT_TRUE(exchange->complete);
  const Events events = sse_events(exchange->body);
  EXPECT_EQ(names_of(events),
            "message_start ping "
            "content_block_start content_block_delta content_block_delta content_block_delta content_block_stop "
            "content_block_start content_block_delta content_block_delta content_block_stop "
            "content_block_start content_block_delta content_block_delta content_block_stop "
            "content_block_start content_block_stop message_delta message_stop ");
  for (const auto& [name, data] : events) EXPECT_EQ(data["type"], name);
}

TEST(MessagesWriter, StreamedIsWhole) {
  const Json whole = answered(false)->json();
  EXPECT_EQ(joined(sse_events(answered(true)->body)), whole);
  EXPECT_EQ(whole["content"].size(), 4U);
  EXPECT_EQ(whole["content"][0]["thinking"], "Hm, well");
  EXPECT_EQ(whole["content"][2]["input"].dump(), R"({"a":1})");
  EXPECT_EQ(whole["content"][3]["input"].dump(), "{}");
  EXPECT_EQ(whole["usage"].dump(), R"({"input_tokens":6,"cache_creation_input_tokens":0,)"
                                   R"("cache_read_input_tokens":4,"output_tokens":7})");
}

TEST(MessagesWriter, SaysWhyItStopped) {
  const auto reason = [](StopKind kind, const char* text) {
    const Json whole = answered(false, kind, text)->json();
    return whole["stop_reason"].text() + " " + whole["stop_sequence"].dump();
  };
  EXPECT_EQ(reason(StopKind::stop, ""), "end_turn null");
  EXPECT_EQ(reason(StopKind::stop, "END"), "stop_sequence \"END\"");
  EXPECT_EQ(reason(StopKind::length, ""), "max_tokens null");
  EXPECT_EQ(reason(StopKind::tool_calls, ""), "tool_use null");
  EXPECT_EQ(answered(false, StopKind::aborted)->status, 503);
  EXPECT_EQ(sse_events(answered(true, StopKind::aborted)->body).back().first, "error");
}

TEST(MessagesWriter, ErrorsComeInAnthropicsForm) {
  const std::vector<std::pair<int, std::string>> types = {{400, "invalid_request_error"},
                                                          {401, "authentication_error"},
                                                          {403, "permission_error"},
                                                          {404, "not_found_error"},
                                                          {413, "request_too_large"},
                                                          {429, "rate_limit_error"},
                                                          {500, "api_error"},
                                                          {503, "overloaded_error"}};
  for (const auto& [status, type] : types) {
    auto exchange = std::make_shared<FakeExchange>();
    messages_writer({"msg_1", "m", true}, exchange)->failed(usage_error("no", "try"), status);
    EXPECT_EQ(exchange->status, status);
    EXPECT_EQ(exchange->headers.size(), status == 429 || status == 503 ? 1U : 0U);
    EXPECT_EQ(exchange->body, cat(R"({"type":"error","error":{"type":")", type, R"(","message":"no; try."}})"));
  }
  auto exchange = std::make_shared<FakeExchange>();
  auto writer = messages_writer({"msg_1", "m", true}, exchange);
  writer->piece(answer_piece(Kind::content, "Hel"));
  writer->failed(failed_error("broke", "again"), 500);
  const Events events = sse_events(exchange->body);
  EXPECT_EQ(names_of(events), "message_start ping content_block_start content_block_delta error ");
  EXPECT_EQ(events.back().second["error"]["type"], "api_error");
  EXPECT_TRUE(exchange->complete);
}

}  // namespace
}  // namespace tern::server::anthropic
