#include <gtest/gtest.h>

#include <functional>

#include "server/json_body.h"
#include "server/openai/chat_completions.h"
#include "server/openai/completions.h"
#include "tests/unit/server/fake_exchange.h"

namespace tern::server::openai {
namespace {

using io::Json;

constexpr const char* kHello = R"("messages": [{"role": "user", "content": "Hello"}])";

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}
std::string chat_error(const std::string& fields) {
  return error_of([&] { (void)parse_chat_completion("{" + std::string(kHello) + ", " + fields + "}"); });
}

TEST(ChatCompletionRequest, IsReadFieldByField) {
  const auto asked = parse_chat_completion(R"({"model": "m", "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Look: "},
                                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
         "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "2"}],
      "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "seed": 7, "max_tokens": 5, "n": 2,
      "stop": ["a", "b"], "stop_token_ids": [3], "logit_bias": {"5": -100}, "logprobs": true, "top_logprobs": 4,
      "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1, "min_tokens": 2,
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
      "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
      "chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "low",
      "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
      "stream": true, "stream_options": {"include_usage": true}, "user": "me"})");
  const ChatRequest& chat = asked.chat;
  EXPECT_EQ(chat.model, "m");
  ASSERT_EQ(chat.dialogue.messages.size(), 4U);
  EXPECT_EQ(chat.dialogue.messages[1].content, "Look: <image>");
  EXPECT_EQ(chat.dialogue.images, std::vector<std::string>{"data:image/png;base64,AA=="});
  EXPECT_NE(chat.dialogue.messages[2].members_json.find("tool_calls"), std::string::npos);
  EXPECT_NE(chat.dialogue.messages[3].members_json.find("c1"), std::string::npos);
  EXPECT_EQ(chat.sampling.temperature, 0.5F);
  EXPECT_EQ(chat.sampling.top_k, 20);
  EXPECT_EQ(chat.sampling.seed, 7U);
  EXPECT_EQ(chat.sampling.max_tokens, 5);
  EXPECT_EQ(chat.n, 2);
  EXPECT_EQ(chat.sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(chat.sampling.logit_bias, (std::vector<std::pair<std::int32_t, float>>{{5, -100.0F}}));
  EXPECT_EQ(chat.sampling.top_logprobs, 4);
  EXPECT_EQ(chat.tool_choice.kind, ToolChoice::Kind::named);
  EXPECT_EQ(chat.tool_choice.name, "f");
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_EQ(chat.template_kwargs, R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_EQ(chat.constraint.kind, Constraint::Kind::json_schema);
  EXPECT_EQ(chat.constraint.text, R"({"type":"object"})");
  EXPECT_TRUE(asked.stream.stream && asked.stream.include_usage);
}

TEST(ChatCompletionRequest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(chat_error(R"("temprature": 1)"),
            "field \"temprature\": expected a field of this route, found one that it does not have; leave it out");
  EXPECT_EQ(chat_error(R"("temperature": "hot")").find("field \"temperature\": expected a number, found \"hot\""), 0U);
  EXPECT_NE(chat_error(R"("temperature": -1)").find("a number from 0"), std::string::npos);
  EXPECT_NE(chat_error(R"("n": 0)").find("an integer from 1 to 128, found 0"), std::string::npos);
  EXPECT_NE(chat_error(R"("top_logprobs": 2)").find("\"logprobs\" is not true"), std::string::npos);
  EXPECT_NE(chat_error(R"("stop": [""])").find("texts that aren't empty"), std::string::npos);
  EXPECT_NE(chat_error(R"("tool_choice": "required")").find("tools to choose from"), std::string::npos);
  EXPECT_NE(chat_error(R"("tools": [{"type": "retrieval"}])").find("field \"tools[0].type\""), std::string::npos);
  EXPECT_NE(chat_error(R"("stream_options": {"include_usage": true})").find("ask for a stream"), std::string::npos);
  EXPECT_NE(chat_error(R"("stream": true, "stream_options": {"continuous_usage_stats": true})").find("the last chunk"),
            std::string::npos);
  EXPECT_NE(chat_error(R"("response_format": {"type": "xml"})").find("response_format.type"), std::string::npos);
  EXPECT_NE(chat_error(R"("guided_json": {}, "guided_regex": "a")").find("leave all but one out"), std::string::npos);
  EXPECT_NE(chat_error(R"("logit_bias": {"x": 1})").find("token ids as keys"), std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_chat_completion("[1]"); }).find("a JSON object"), std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_chat_completion("{"); }).find("body"), std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_chat_completion(R"({"messages": []})"); }).find("at least one message"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              (void)parse_chat_completion(R"({"messages": [{"role": "wizard", "content": "x"}]})");
            }).find("messages[0].role"),
            std::string::npos);
}

TokenText token(const std::string& text) { return {1, -0.5F, text, text, {{2, -1.0F, "b", "b", {}}}}; }

void answer(AnswerSink& sink) {
  sink.piece({.kind = AnswerPiece::Kind::reasoning, .text = "Hm."});
  sink.piece({.kind = AnswerPiece::Kind::content, .text = "Hel", .tokens = {token("Hel")}});
  sink.piece({.kind = AnswerPiece::Kind::content, .text = "lo", .tokens = {token("lo")}});
  sink.piece({.kind = AnswerPiece::Kind::call, .name = "f", .id = "call_1"});
  sink.piece({.kind = AnswerPiece::Kind::arguments, .text = "{\"a\""});
  sink.piece({.kind = AnswerPiece::Kind::arguments, .text = ": 1}"});
  sink.ended({.kind = StopKind::tool_calls});
  sink.finished({.prompt_tokens = 5, .cached_tokens = 2, .completion_tokens = 7, .reasoning_tokens = 1});
}

WriterOptions writer_options(bool stream) {
  WriterOptions options{"chatcmpl-1", "m", 100, {}, true, 1};
  options.stream.stream = stream;
  options.stream.include_usage = stream;
  return options;
}

TEST(ChatCompletionAnswer, IsOneObject) {
  const auto exchange = std::make_shared<FakeExchange>();
  answer(*chat_completion_writer(writer_options(false), exchange));
  EXPECT_EQ(exchange->status, 200);
  const Json json = exchange->json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["id"], "chatcmpl-1");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Hello");
  EXPECT_EQ(choice["message"]["reasoning"], "Hm.");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["logprobs"]["content"].size(), 2U);
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"][0]["token"], "b");
  EXPECT_EQ(json["usage"]["total_tokens"], 12);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

// What the deltas of a stream add up to.
TEST(ChatCompletionAnswer, StreamedSaysTheSame) {
  const auto exchange = std::make_shared<FakeExchange>();
  answer(*chat_completion_writer(writer_options(true), exchange));
  EXPECT_TRUE(exchange->streamed && exchange->complete);
  auto events = exchange->events();
  ASSERT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::string content, reasoning, arguments, name, finish;
  std::size_t logprobs = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json json = io::parse_json(events[i], "event").value();
    EXPECT_EQ(json["object"], "chat.completion.chunk");
    if (i + 1 == events.size()) {
      EXPECT_EQ(json["choices"].size(), 0U);
      EXPECT_EQ(json["usage"]["completion_tokens"], 7);
      continue;
    }
    const Json& choice = json["choices"][0];
    if (i == 0) {
      EXPECT_EQ(choice["delta"]["role"], "assistant");
    }
    if (const Json* text = choice["delta"].find("content")) content += text->text();
    if (const Json* text = choice["delta"].find("reasoning")) reasoning += text->text();
    if (const Json* calls = choice["delta"].find("tool_calls")) {
      const Json& function = (*calls)[0]["function"];
      arguments += function["arguments"].text();
      if (function.contains("name")) name = function["name"].text();
    }
    if (choice["logprobs"].is_object()) logprobs += choice["logprobs"]["content"].size();
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"].text();
  }
  EXPECT_EQ(content, "Hello");
  EXPECT_EQ(reasoning, "Hm.");
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, "{\"a\": 1}");
  EXPECT_EQ(logprobs, 2U);
  EXPECT_EQ(finish, "tool_calls");
}

TEST(ChatCompletionAnswer, FailsAsTheClientCanRead) {
  const auto whole = std::make_shared<FakeExchange>();
  chat_completion_writer(writer_options(false), whole)->failed(data_error("field \"n\"", "1", "2", "ask for one"), 400);
  EXPECT_EQ(whole->status, 400);
  EXPECT_EQ(whole->json()["error"]["param"], "n");
  EXPECT_EQ(whole->json()["error"]["type"], "invalid_request_error");
  const auto full = std::make_shared<FakeExchange>();
  chat_completion_writer(writer_options(false), full)->failed(failed_error("full", "come again"), 429);
  EXPECT_EQ(full->headers, (Headers{{"Retry-After", "1"}}));
  const auto stream = std::make_shared<FakeExchange>();
  const auto sink = chat_completion_writer(writer_options(true), stream);
  sink->piece({.text = "Hel"});
  sink->failed(failed_error("the device failed", "look at the log"), 500);
  const auto events = stream->events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(io::parse_json(events[events.size() - 2], "event").value()["error"]["code"], 500);
}

TEST(CompletionRequest, TakesTextsAndIds) {
  EXPECT_EQ(parse_completion(R"({"prompt": "a"})").requests.size(), 1U);
  EXPECT_EQ(parse_completion(R"({"prompt": [1, 2]})").requests.size(), 1U);
  EXPECT_EQ(std::get<engine::TokenIds>(parse_completion(R"({"prompt": [[1, 2], [3]]})").requests[1].prompt),
            engine::TokenIds{3});
  const auto batch = parse_completion(R"({"prompt": ["a", "b"], "max_tokens": 3, "logprobs": 2})");
  EXPECT_EQ(batch.requests.size(), 2U);
  EXPECT_EQ(batch.requests[1].sampling.max_tokens, 3);
  EXPECT_EQ(batch.requests[0].sampling.top_logprobs, 2);
  EXPECT_EQ(parse_completion(R"({"prompt": "a"})").requests[0].sampling.max_tokens, 16);
  EXPECT_NE(error_of([] { (void)parse_completion("{}"); }).find("field \"prompt\""), std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_completion(R"({"prompt": [true]})"); }).find("field \"prompt\""),
            std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_completion(R"({"prompt": "a", "suffix": "b"})"); }).find("suffix"),
            std::string::npos);
}

TEST(CompletionAnswer, ChoicesCountThroughThePrompts) {
  const auto exchange = std::make_shared<FakeExchange>();
  WriterOptions options{"cmpl-1", "m", 100, {}, true, 2};
  const auto sinks = completion_writers(options, 2, {"x", "y"}, exchange);
  for (const std::size_t prompt : {1U, 0U}) {
    for (const int choice : {0, 1}) {
      AnswerPiece piece{.choice = choice, .text = prompt == 0 ? "A" : "B"};
      piece.tokens = {token(piece.text)};
      sinks[prompt]->piece(std::move(piece));
      sinks[prompt]->ended({.choice = choice, .kind = StopKind::length});
    }
    EXPECT_FALSE(exchange->complete);
    sinks[prompt]->finished({.prompt_tokens = 1, .completion_tokens = 2});
  }
  const Json json = exchange->json();
  ASSERT_EQ(json["choices"].size(), 4U);
  EXPECT_EQ(json["choices"][0]["text"], "xA");
  EXPECT_EQ(json["choices"][1]["text"], "xA");
  EXPECT_EQ(json["choices"][3]["text"], "yB");
  EXPECT_EQ(json["choices"][3]["index"], 3);
  EXPECT_EQ(json["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][3]["logprobs"]["top_logprobs"][0]["b"], -1.0);
  EXPECT_EQ(json["usage"]["completion_tokens"], 4);
}

}  // namespace
}  // namespace tern::server::openai
