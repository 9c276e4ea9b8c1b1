#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/responses/responses_request.h"
#include "server/responses/responses_writer.h"
#include "server/responses/routes.h"
#include "tests/unit/server/fake_exchange.h"
#include "tests/unit/server/sse_events.h"
#include "tests/unit/server/told_answer.h"

namespace tern::server::responses {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;

std::string error_of(const std::string& body) {
  try {
    (void)parse_responses(body, ResponseStore());
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}
std::string error_with(const std::string& fields) {
  return error_of(cat(R"({"model": "m", "input": "x", )", fields, "}"));
}
std::string error_in(const std::string& item) { return error_of(cat(R"({"model": "m", "input": [)", item, "]}")); }

WriterOptions writer_options(bool stream) {
  WriterOptions options;
  options.id = "resp_1";
  options.model = "m";
  options.created = 5;
  options.stream = stream;
  options.echoed = parse_responses(R"({"input": "x"})", ResponseStore()).echoed;
  return options;
}

// Thoughts, a text and two calls, one without arguments.
std::shared_ptr<FakeExchange> replied(bool stream, StopKind kind = StopKind::tool_calls) {
  auto exchange = std::make_shared<FakeExchange>();
  auto writer = responses_writer(writer_options(stream), exchange);
  tell_answer(*writer, kind);
  return exchange;
}

// The output that a client puts together from the deltas alone.
Json output_of(const Events& events) {
  Json output = Json::array();
  for (const auto& [name, data] : events) {
    if (name == "response.output_item.added") {
      EXPECT_EQ(data["output_index"].get<std::size_t>(), output.size());
      output.push_back(data["item"]);
    }
    if (!data.contains("output_index")) continue;
    Json& item = output[data["output_index"].get<std::size_t>()];
    if (name == "response.content_part.added") item["content"].push_back(data["part"]);
    if (name.ends_with("text.delta")) {
      Json& text = item["content"][data["content_index"].get<std::size_t>()]["text"];
      text = text.text() + data["delta"].text();
    }
    if (name.ends_with("arguments.delta")) item["arguments"] = item["arguments"].text() + data["delta"].text();
    if (name == "response.output_item.done") {
      item["status"] = data["item"]["status"];
      EXPECT_EQ(item, data["item"]);
    }
  }
  return output;
}

TEST(Responses, AreReadFieldByField) {
  const auto asked = parse_responses(R"({"model": "m", "instructions": "Be brief.", "input": "Hello",
      "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 5, "stream": true, "store": false,
      "tools": [{"type": "function", "name": "f", "description": "adds", "parameters": {"type": "object"},
                 "strict": true}], "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
      "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}, "verbosity": "low"},
      "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs"],
      "top_logprobs": 3, "metadata": {"a": "b"}, "user": "me"})",
                                     ResponseStore());
  const ChatRequest& chat = asked.chat;
  ASSERT_EQ(chat.dialogue.messages.size(), 2U);
  EXPECT_EQ(chat.dialogue.messages[0].role, "system");
  EXPECT_EQ(chat.dialogue.messages[1].content, "Hello");
  EXPECT_EQ(chat.sampling.temperature, 0.5F);
  EXPECT_EQ(chat.sampling.top_p, 0.9F);
  EXPECT_EQ(chat.sampling.max_tokens, 5);
  EXPECT_EQ(chat.sampling.top_logprobs, 3);
  EXPECT_TRUE(asked.logprobs && asked.stream && !asked.store);
  EXPECT_EQ(chat.dialogue.tools_json, R"([{"type":"function","function":{"name":"f","description":"adds",)"
                                      R"("parameters":{"type":"object"},"strict":true}}])");
  EXPECT_EQ(chat.tool_choice.kind, ToolChoice::Kind::named);
  EXPECT_EQ(chat.tool_choice.name, "f");
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_EQ(chat.constraint.kind, Constraint::Kind::json_schema);
  EXPECT_EQ(chat.constraint.text, R"({"type":"object"})");
  EXPECT_EQ(chat.template_kwargs, R"({"reasoning_effort":"low"})");
  EXPECT_EQ(asked.echoed["metadata"].dump(), R"({"a":"b"})");
  EXPECT_EQ(asked.echoed["text"]["format"]["name"], "s");
}

TEST(Responses, ItemsBecomeADialogue) {
  const auto dialogue = parse_responses(R"({"input": [
      {"role": "user", "content": [{"type": "input_text", "text": "Look: "},
                                   {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
      {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "role": "assistant", "id": "m", "status": "completed",
       "content": [{"type": "output_text", "text": "I ask.", "annotations": []}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "1"},
      {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]}]})",
                                        ResponseStore())
                            .chat.dialogue;
  ASSERT_EQ(dialogue.messages.size(), 4U);
  EXPECT_EQ(dialogue.messages[0].content, "Look: <image>");
  EXPECT_EQ(dialogue.images, std::vector<std::string>{"data:image/png;base64,AA=="});
  EXPECT_EQ(dialogue.messages[1].content, "I ask.");
  EXPECT_EQ(dialogue.messages[1].members_json,
            R"({"reasoning_content":"hm","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},)"
            R"({"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]})");
  EXPECT_EQ(dialogue.messages[2].role, "tool");
  EXPECT_EQ(dialogue.messages[2].content, "1");
  EXPECT_EQ(dialogue.messages[2].members_json, R"({"tool_call_id":"c1"})");
  EXPECT_EQ(dialogue.messages[3].content, "2");
}

TEST(Responses, GoOnFromTheOneBefore) {
  ResponseStore store;
  const auto first = parse_responses(R"({"input": "One", "instructions": "Only there."})", store);
  store.put("resp_1", {replied(false)->json(), first.input});
  const auto second = parse_responses(R"({"previous_response_id": "resp_1", "input": [
      {"type": "function_call_output", "call_id": "call_1", "output": "2"}]})",
                                      store);
  const auto& messages = second.chat.dialogue.messages;
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].content, "One");
  EXPECT_EQ(messages[1].content, "Line\n\nd\xc3\xa9j\xc3\xa0");
  EXPECT_NE(messages[1].members_json.find("call_2"), std::string::npos);
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(second.input.size(), 6U);  // one, four of the answer, one
  EXPECT_EQ(error_with(R"("previous_response_id": "resp_9")").find("field \"previous_response_id\": "), 0U);
}

TEST(Responses, NameTheFieldThatIsWrong) {
  const auto starts = [](const std::string& error, const std::string& with) {
    EXPECT_EQ(error.substr(0, with.size()), with);
  };
  starts(error_of(R"({"model": "m"})"), "field \"input\": ");
  starts(error_of(R"({"model": "m", "input": []})"), "field \"input\": ");
  starts(error_in(R"({"type": "web_search_call"})"), "field \"input[0].type\": ");
  starts(error_in(R"({"role": "tool", "content": "x"})"), "field \"input[0].role\": ");
  starts(error_in(R"({"role": "user", "content": [{"type": "input_file"}]})"), "field \"input[0].content[0].type\": ");
  starts(error_in(R"({"role": "user", "content": "x", "size": 1})"), "field \"input[0].size\": ");
  starts(error_in(R"({"type": "function_call", "name": "f", "arguments": "{}"})"), "field \"input[0].call_id\": ");
  starts(error_in(R"({"type": "reasoning", "summary": [], "encrypted_content": "x"})"),
         "field \"input[0].encrypted_content\": ");
  starts(error_with(R"("tools": [{"type": "web_search"}])"), "field \"tools[0].type\": expected function");
  starts(error_with(R"("tool_choice": "required")"), "field \"tool_choice\": expected tools");
  starts(error_with(R"("tool_choice": "some")"), "field \"tool_choice\": ");
  starts(error_with(R"("text": {"format": {"type": "xml"}})"), "field \"text.format.type\": ");
  starts(error_with(R"("text": {"format": {"type": "json_schema", "name": "s"}})"), "field \"text.format.schema\": ");
  starts(error_with(R"("temperature": 3)"), "field \"temperature\": ");
  starts(error_with(R"("max_output_tokens": 0)"), "field \"max_output_tokens\": ");
  starts(error_with(R"("background": true)"), "field \"background\": expected false");
  starts(error_with(R"("truncation": "auto")"), "field \"truncation\": expected disabled");
  starts(error_with(R"("include": ["file_search_call.results"])"), "field \"include\": ");
  starts(error_with(R"("stream_options": {"include_obfuscation": true})"),
         "field \"stream_options.include_obfuscation\": ");
  starts(error_with(R"("conversation": "c")"), "field \"conversation\": expected a field of this route");
  starts(error_with(R"("max_tool_calls": 1)"), "field \"max_tool_calls\": expected a field of this route");
}

TEST(ResponsesWriter, EventsComeInOpenAIsOrder) {
  const auto exchange = replied(true);
  EXPECT_EQ(exchange->content_type, "text/event-stream; charset=utf-8");
  EXPECT_TRUE(exchange->complete);
  const Events events = sse_events(exchange->body);
  EXPECT_EQ(names_of(events),
            "response.created response.in_progress "
            "response.output_item.added response.content_part.added response.reasoning_text.delta "
            "response.reasoning_text.delta response.reasoning_text.done response.content_part.done "
            "response.output_item.done "
            "response.output_item.added response.content_part.added response.output_text.delta "
            "response.output_text.delta response.output_text.done response.content_part.done "
            "response.output_item.done "
            "response.output_item.added response.function_call_arguments.delta "
            "response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done "
            "response.output_item.added response.function_call_arguments.done response.output_item.done "
            "response.completed ");
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].second["type"], events[i].first);
    EXPECT_EQ(events[i].second["sequence_number"], i);
  }
  EXPECT_EQ(events[0].second["response"]["output"].size(), 0U);
}

TEST(ResponsesWriter, StreamedIsWhole) {
  for (const StopKind kind : {StopKind::stop, StopKind::length}) {
    const Json whole = replied(false, kind)->json();
    const Events events = sse_events(replied(true, kind)->body);
    EXPECT_EQ(output_of(events), whole["output"]);
    EXPECT_EQ(events.back().second["response"], whole);
    const bool cut = kind == StopKind::length;
    EXPECT_EQ(whole["status"], cut ? "incomplete" : "completed");
    EXPECT_EQ(whole["output"][3]["status"], cut ? "incomplete" : "completed");
    EXPECT_EQ(whole["incomplete_details"].is_null(), !cut);
    EXPECT_EQ(events.back().first, cut ? "response.incomplete" : "response.completed");
  }
  EXPECT_EQ(replied(false)->json()["usage"]["total_tokens"], 17);
}

TEST(ResponsesWriter, ErrorsComeBeforeOrInTheMiddle) {
  auto exchange = std::make_shared<FakeExchange>();
  responses_writer(writer_options(true), exchange)->failed(usage_error("no", "try"), 429);
  EXPECT_EQ(exchange->status, 429);
  EXPECT_EQ(exchange->json()["error"]["message"], "no; try.");
  for (const auto& [status, code] : std::vector<std::pair<int, const char*>>{
           {500, "server_error"}, {429, "rate_limit_exceeded"}, {400, "invalid_prompt"}}) {
    exchange = std::make_shared<FakeExchange>();
    WriterOptions options = writer_options(true);
    bool stored = false;
    options.completed = [&](const Json&) { stored = true; };
    auto writer = responses_writer(std::move(options), exchange);
    writer->piece(answer_piece(Kind::content, "Hel"));
    writer->failed(failed_error("broke", "again"), status);
    const auto events = sse_events(exchange->body);
    EXPECT_EQ(events.back().first, "response.failed");
    const Json& response = events.back().second["response"];
    EXPECT_EQ(response["status"], "failed");
    EXPECT_EQ(response["error"]["code"], code);
    EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hel");
    EXPECT_TRUE(exchange->complete);
    EXPECT_FALSE(stored);
  }
  EXPECT_EQ(replied(false, StopKind::aborted)->status, 503);
}

StoredResponse stored(const std::string& text) { return {Json(text), Json::array()}; }

TEST(ResponseStore, KeepsTheNewestThatFit) {
  ResponseStore few({2, 1U << 20});
  for (const char* id : {"a", "b", "c"}) few.put(id, stored(id));
  EXPECT_EQ(few.get("a"), nullptr);
  EXPECT_EQ(few.get("b")->response, "b");
  few.put("b", stored("again"));  // is the newest now
  few.put("d", stored("d"));
  EXPECT_EQ(few.get("c"), nullptr);
  EXPECT_EQ(few.get("b")->response, "again");
  EXPECT_TRUE(few.erase("b"));
  EXPECT_FALSE(few.erase("b"));

  ResponseStore small({100, 64});
  small.put("a", stored(std::string(26, 'x')));  // 30 bytes with its quotes and the empty list
  small.put("b", stored(std::string(26, 'x')));
  EXPECT_NE(small.get("a"), nullptr);
  small.put("c", stored(std::string(26, 'x')));
  EXPECT_EQ(small.get("a"), nullptr);
  EXPECT_NE(small.get("b"), nullptr);
  small.put("d", stored(std::string(100, 'x')));
  EXPECT_EQ(small.get("d"), nullptr);
  EXPECT_NE(small.get("b"), nullptr);
}

TEST(ResponseStore, AnswersWhatIsStored) {
  ResponseStore store;
  Json input = Json::array();
  for (const char* id : {"i0", "i1", "i2"}) input.push_back(Json{{"id", id}, {"type", "message"}});
  store.put("resp_1", {Json{{"id", "resp_1"}}, input});
  const auto ask = [&](const char* method, const std::string& rest, const std::string& query = {}) {
    FakeExchange exchange;
    HttpRequest request;
    request.method = method;
    request.path = "/v1/responses/" + rest;
    request.query = query;
    answer_stored(store, request, rest, exchange);
    return cat(exchange.status, " ", exchange.body);
  };
  EXPECT_EQ(ask("GET", "resp_1"), R"(200 {"id":"resp_1"})");
  EXPECT_EQ(ask("GET", "resp_1/input_items", "limit=2"),
            R"(200 {"object":"list","data":[{"id":"i2","type":"message"},{"id":"i1","type":"message"}],)"
            R"("first_id":"i2","last_id":"i1","has_more":true})");
  EXPECT_EQ(ask("GET", "resp_1/input_items", "order=asc&after=i1"),
            R"(200 {"object":"list","data":[{"id":"i2","type":"message"}],"first_id":"i2","last_id":"i2",)"
            R"("has_more":false})");
  EXPECT_THROW(ask("GET", "resp_1/input_items", "limit=0"), Failure);
  EXPECT_THROW(ask("GET", "resp_1/input_items", "after=i9"), Failure);
  EXPECT_THROW(ask("GET", "resp_1", "stream=true"), Failure);
  EXPECT_EQ(ask("POST", "resp_1/cancel").substr(0, 4), "400 ");
  EXPECT_EQ(ask("POST", "resp_1").substr(0, 4), "404 ");
  EXPECT_EQ(ask("DELETE", "resp_1/input_items").substr(0, 4), "404 ");
  EXPECT_EQ(ask("GET", "resp_2").substr(0, 4), "404 ");
  EXPECT_EQ(ask("DELETE", "resp_1"), R"(200 {"id":"resp_1","object":"response","deleted":true})");
  EXPECT_EQ(ask("DELETE", "resp_1").substr(0, 4), "404 ");
}

}  // namespace
}  // namespace tern::server::responses
