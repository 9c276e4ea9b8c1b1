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
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "suffix": "b"})").suffix, "b");
  EXPECT_NE(error_of([] { (void)parse_completion(R"({"prompt": [1], "suffix": "b"})"); }).find("a text where a suffix"),
            std::string::npos);
  EXPECT_NE(error_of([] { (void)parse_completion(R"({"prompt": "a", "suffix": "b", "echo": true})"); }).find("echo"),
            std::string::npos);
}

// What vLLM's requests have beside OpenAI's: each field works, or is refused by its name where it asks for something.
TEST(OpenAiRequests, SettleEveryFieldOfVllms) {
  const auto both = [](const std::string& fields) {
    const std::string of_chat = chat_error(fields);
    const std::string of_text = error_of([&] { (void)parse_completion(R"({"prompt": "a", )" + fields + "}"); });
    EXPECT_EQ(of_chat, of_text);
    return of_chat;
  };
  for (const char* fields :
       {R"("use_beam_search": false, "length_penalty": 1.0, "watermarking": false, "stream_interval": 1)",
        R"("use_beam_search": true, "length_penalty": 0.5, "n": 2, "best_of": 4)",
        R"("spaces_between_special_tokens": true, "kv_transfer_params": null, "vllm_xargs": {})",
        R"("request_id": "a", "session_id": "b", "return_token_offsets": true, "return_mm_kwargs": false)",
        R"("bad_words": ["a b", "c"], "allowed_token_ids": [1, 2], "thinking_token_budget": -1)",
        R"("truncate_prompt_tokens": 5, "truncation_side": "right", "return_token_ids": true)",
        R"("return_tokens_as_token_ids": true, "routed_experts_prompt_start": 0)"}) {
    EXPECT_EQ(both(fields), "no error") << fields;
  }
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"length_penalty", "2"},
                                                        {"watermarking", "true"},
                                                        {"stream_interval", "4"},
                                                        {"spaces_between_special_tokens", "false"},
                                                        {"kv_transfer_params", R"({"a": 1})"},
                                                        {"ec_transfer_params", R"({"a": 1})"},
                                                        {"vllm_xargs", R"({"a": 1})"},
                                                        {"repetition_detection", R"({"a": 1})"},
                                                        {"logprob_token_ids", "[1]"},
                                                        {"prompt_embeds", R"("AA==")"},
                                                        {"routed_experts_prompt_start", "1"},
                                                        {"bad_words", R"(["  "])"},
                                                        {"allowed_token_ids", "[]"},
                                                        {"allowed_token_ids", "[-1]"},
                                                        {"truncate_prompt_tokens", "0"},
                                                        {"truncation_side", R"("middle")"}}) {
    EXPECT_EQ(both("\"" + field + "\": " + value).find("field \"" + field + "\": expected "), 0U) << field;
  }
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"chat_template", R"("{{ messages }}")"},
                                                        {"add_special_tokens", "true"},
                                                        {"return_prompt_text", "true"},
                                                        {"media_io_kwargs", R"({"image": {}})"},
                                                        {"mm_processor_kwargs", R"({"a": 1})"},
                                                        {"documents", "1"}}) {
    EXPECT_EQ(chat_error("\"" + field + "\": " + value).find("field \"" + field + "\": expected "), 0U) << field;
  }
  const SamplingWishes wishes =
      parse_completion(R"({"prompt": "a", "bad_words": "x", "allowed_token_ids": [7], "truncate_prompt_tokens": 5,
                           "return_token_ids": true, "thinking_token_budget": 9})")
          .requests[0]
          .sampling;
  EXPECT_EQ(wishes.bad_words, std::vector<std::string>{"x"});
  EXPECT_EQ(wishes.allowed_token_ids, std::vector<std::int32_t>{7});
  EXPECT_EQ(wishes.truncate_prompt_tokens, 5);
  EXPECT_FALSE(wishes.truncate_right);
  EXPECT_TRUE(wishes.token_ids);
  EXPECT_EQ(wishes.thinking_token_budget, 9);
  const auto chat = parse_chat_completion(R"({"messages": [{"role": "assistant", "content": "So"}], "echo": true,
                                              "documents": [{"text": "d"}], "reasoning_effort": "none"})");
  EXPECT_EQ(chat.echo, "So");
  EXPECT_EQ(chat.chat.template_kwargs,
            R"({"enable_thinking":false,"reasoning_effort":"none","documents":[{"text":"d"}]})");
}

TEST(CompletionAnswer, TheBestAreTheLikeliest) {
  const auto best = [](const std::string& fields) {
    return error_of([&] { (void)parse_completion(R"({"prompt": "a", )" + fields + "}"); });
  };
  EXPECT_EQ(best(R"("best_of": 3, "n": 2)"), "no error");
  EXPECT_NE(best(R"("best_of": 1, "n": 2)").find(R"(field "best_of": expected at least "n")"), std::string::npos);
  EXPECT_NE(best(R"("best_of": 3, "n": 2, "stream": true)").find("in a stream"), std::string::npos);
  EXPECT_EQ(best(R"("best_of": 2, "n": 2, "stream": true)"), "no error");
  const auto exchange = std::make_shared<FakeExchange>();
  WriterOptions options{"cmpl-1", "m", 100, {}, false, 3};
  options.told = 2;
  const auto sinks = completion_writers(options, 2, {}, exchange);
  for (const std::size_t prompt : {0U, 1U}) {
    const std::vector<double> logprobs = prompt == 0 ? std::vector{-3.0, -1.0, -2.0} : std::vector{-1.0, -1.0, -0.5};
    for (int choice = 0; choice < 3; ++choice) {
      sinks[prompt]->piece({.choice = choice, .text = std::string(1, static_cast<char>('a' + 3 * prompt + choice))});
      AnswerEnd end{.choice = choice, .kind = StopKind::length};
      end.mean_logprob = logprobs[static_cast<std::size_t>(choice)];
      sinks[prompt]->ended(end);
    }
    sinks[prompt]->finished({.prompt_tokens = 1, .completion_tokens = 3});
  }
  const Json json = exchange->json();
  std::string told;
  for (std::size_t i = 0; i < json["choices"].size(); ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    told += json["choices"][i]["text"].text();
  }
  EXPECT_EQ(told, "bcfd");                           // equal ones in their order
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);  // as OpenAI counts: of those that aren't told, too
}

// The ids of prompts and answers, where they are asked for, whole and streamed.
TEST(OpenAiAnswers, TellIds) {
  for (const bool stream : {false, true}) {
    for (const bool chat : {false, true}) {
      const auto exchange = std::make_shared<FakeExchange>();
      WriterOptions options{"x-1", "m", 100, {stream, false}, true, 1};
      options.tokens_as_ids = true;
      const auto sink =
          chat ? chat_completion_writer(options, exchange) : completion_writers(options, 1, {}, exchange)[0];
      sink->prompt_ids({5, 6});
      sink->piece({.text = "a", .tokens = {token("a")}});
      sink->piece({.text = "b", .tokens = {token("b"), token("b")}});
      sink->ended({});
      sink->finished({});
      std::vector<Json> bodies;
      if (!stream) bodies.push_back(exchange->json());
      for (const std::string& event : stream ? exchange->events() : std::vector<std::string>()) {
        if (event != "[DONE]") bodies.push_back(io::parse_json(event, "event").value());
      }
      std::size_t ids = 0;
      int prompts = 0;
      bool named = false;
      for (const Json& body : bodies) {
        const Json& choice = body["choices"][0];
        if (const Json* some = choice.find("token_ids")) ids += some->size();
        const Json* prompt = chat ? body.find("prompt_token_ids") : choice.find("prompt_token_ids");
        if (prompt != nullptr) {
          ++prompts;
          EXPECT_EQ(prompt->dump(), "[5,6]");
        }
        named = named || choice["logprobs"].dump().find("token_id:1") != std::string::npos;
      }
      EXPECT_EQ(ids, 3U) << stream << chat;
      EXPECT_EQ(prompts, 1) << stream << chat;
      EXPECT_TRUE(named);
    }
  }
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
