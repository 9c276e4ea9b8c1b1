#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/ollama/answer_writer.h"
#include "server/ollama/requests.h"
#include "tests/unit/server/fake_exchange.h"
#include "tests/unit/server/told_answer.h"

namespace tern::server::ollama {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;

ChatRequest chat_of(const std::string& body) { return std::get<ChatRequest>(parse_chat(body).asked); }
ChatRequest chat_with(const std::string& fields) {
  return chat_of(cat(R"({"model": "m", "messages": [{"role": "user", "content": "x"}], )", fields, "}"));
}

template <typename Parse>
std::string refused(const Parse& parse, const std::string& body) {
  try {
    (void)parse(body);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}
std::string chat_refused(const std::string& fields) {
  return refused(parse_chat, cat(R"({"model": "m", "messages": [{"role": "user", "content": "x"}], )", fields, "}"));
}
std::string generate_refused(const std::string& fields) {
  return refused(parse_generate, cat(R"({"model": "m", "prompt": "x", )", fields, "}"));
}

// A clock that says 0, 1, 2, ... milliseconds.
WriterOptions options_of(bool stream, bool chat) {
  WriterOptions options;
  options.model = "m:latest";
  options.created_at = "2026-01-31T12:00:00Z";
  options.stream = stream;
  options.chat = chat;
  options.clock = [at = 0]() mutable { return std::chrono::milliseconds(at++); };
  return options;
}

std::shared_ptr<FakeExchange> told(bool stream, bool chat, StopKind kind = StopKind::tool_calls) {
  auto exchange = std::make_shared<FakeExchange>();
  auto writer = answer_writer(options_of(stream, chat), exchange);
  writer->piece(answer_piece(Kind::reasoning, "Hm"));
  writer->piece(answer_piece(Kind::content, "Line\n"));
  writer->piece(answer_piece(Kind::content, "d\xc3\xa9j\xc3\xa0"));
  writer->piece(answer_piece(Kind::call, "", "add", "call_1"));
  writer->piece(answer_piece(Kind::arguments, "{\"a\":"));
  writer->piece(answer_piece(Kind::arguments, " 1}"));
  writer->piece(answer_piece(Kind::call, "", "now", "call_2"));
  writer->ended({0, kind, {}, {}});
  writer->finished({10, 4, 7, 2});
  return exchange;
}

std::vector<Json> lines_of(const std::string& body) {
  std::vector<Json> out;
  for (const auto line : split(body, '\n')) {
    if (!line.empty()) out.push_back(io::parse_json(line, "line").value());
  }
  return out;
}

TEST(OllamaRequest, IsReadFieldByField) {
  const auto asked = parse_chat(R"({"model": "m:latest", "stream": false, "keep_alive": "5m", "format": "json",
      "think": "low", "logprobs": true, "top_logprobs": 2, "options": {"temperature": 0.5, "top_k": 20, "top_p": 0.9,
      "min_p": 0.1, "seed": 7, "num_predict": 5, "num_ctx": 128, "stop": ["a", "b"], "repeat_penalty": 1.5,
      "presence_penalty": 1, "frequency_penalty": -1, "num_gpu": 1},
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
      "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Look", "images": ["AA==", "BB=="]},
        {"role": "assistant", "thinking": "hm", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "2"}]})");
  EXPECT_EQ(asked.model, "m:latest");
  EXPECT_FALSE(asked.stream || asked.load);
  EXPECT_TRUE(asked.logprobs);
  EXPECT_EQ(asked.num_ctx, 128);
  const auto& chat = std::get<ChatRequest>(asked.asked);
  EXPECT_EQ(chat.model, "m");
  const SamplingWishes& sampling = chat.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.seed, 7U);
  EXPECT_EQ(sampling.max_tokens, 5);
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, 1.0F);
  EXPECT_EQ(sampling.frequency_penalty, -1.0F);
  EXPECT_EQ(sampling.top_logprobs, 2);
  EXPECT_EQ(chat.constraint.kind, Constraint::Kind::json_object);
  EXPECT_EQ(chat.template_kwargs, R"({"enable_thinking":true,"reasoning_effort":"low"})");
  EXPECT_EQ(chat.dialogue.tools_json,
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  ASSERT_EQ(chat.dialogue.messages.size(), 4U);
  EXPECT_EQ(chat.dialogue.messages[1].content, "<image><image>Look");
  EXPECT_EQ(chat.dialogue.images,
            (std::vector<std::string>{"data:image/png;base64,AA==", "data:image/png;base64,BB=="}));
  EXPECT_EQ(chat.dialogue.messages[2].members_json,
            R"({"reasoning_content":"hm","tool_calls":[{"id":"call_2_0","type":"function",)"
            R"("function":{"name":"f","arguments":{"a":1}}}]})");
  EXPECT_EQ(chat.dialogue.messages[3].members_json, R"({"name":"f"})");
}

TEST(OllamaRequest, DefaultsAreOllamas) {
  const auto asked = parse_chat(R"({"model": "m", "messages": [{"role": "user", "content": "x"}]})");
  EXPECT_TRUE(asked.stream);
  EXPECT_TRUE(std::get<ChatRequest>(asked.asked).include_reasoning);
  EXPECT_EQ(chat_with(R"("options": {"num_predict": -1, "seed": -1})").sampling.max_tokens, std::nullopt);
  EXPECT_EQ(chat_with(R"("options": {"num_predict": -2, "seed": -1})").sampling.seed, std::nullopt);
  EXPECT_EQ(chat_with(R"("think": false)").template_kwargs, R"({"enable_thinking":false})");
  EXPECT_FALSE(chat_with(R"("think": false)").include_reasoning);
  EXPECT_EQ(chat_with(R"("format": "")").constraint.kind, Constraint::Kind::none);
  EXPECT_EQ(chat_with(R"("format": {"type": "object"})").constraint.text, R"({"type":"object"})");
  EXPECT_TRUE(parse_chat(R"({"model": "m"})").load);
  EXPECT_TRUE(parse_generate(R"({"model": "m"})").load);
}

TEST(OllamaRequest, GenerateIsADialogueOrRaw) {
  const auto chat = std::get<ChatRequest>(
      parse_generate(R"({"model": "m", "system": "s", "prompt": "x", "images": ["AA=="], "suffix": ""})").asked);
  ASSERT_EQ(chat.dialogue.messages.size(), 2U);
  EXPECT_EQ(chat.dialogue.messages[0].content, "s");
  EXPECT_EQ(chat.dialogue.messages[1].content, "<image>x");
  const auto raw = std::get<CompletionRequest>(
      parse_generate(R"({"model": "m", "prompt": "x", "raw": true, "format": "json", "options": {"num_predict": 3}})")
          .asked);
  EXPECT_EQ(std::get<std::string>(raw.prompt), "x");
  EXPECT_EQ(raw.sampling.max_tokens, 3);
  EXPECT_EQ(raw.constraint.kind, Constraint::Kind::json_object);
}

TEST(OllamaRequest, NamesTheFieldThatIsWrong) {
  const auto starts = [](const std::string& error, const std::string& with) {
    EXPECT_EQ(error.substr(0, with.size()), with);
  };
  starts(refused(parse_chat, R"({"messages": []})"), "field \"model\": ");
  starts(chat_refused(R"("options": {"mirostat": 1})"), "field \"options.mirostat\": expected a field of this route");
  starts(chat_refused(R"("options": {"num_predict": 0})"), "field \"options.num_predict\": ");
  starts(chat_refused(R"("options": {"num_ctx": 0})"), "field \"options.num_ctx\": ");
  starts(chat_refused(R"("options": {"stop": [""]})"), "field \"options.stop\": ");
  starts(chat_refused(R"("options": {"top_p": 2})"), "field \"options.top_p\": ");
  starts(chat_refused(R"("format": "xml")"), "field \"format\": ");
  starts(chat_refused(R"("think": "much")"), "field \"think\": ");
  starts(chat_refused(R"("top_logprobs": 1)"), "field \"top_logprobs\": ");
  starts(chat_refused(R"("tools": [{"type": "retrieval"}])"), "field \"tools[0].type\": ");
  starts(chat_refused(R"("prompt": "x")"), "field \"prompt\": expected a field of this route");
  starts(refused(parse_chat, R"({"model": "m", "messages": [{"role": "judge"}]})"), "field \"messages[0].role\": ");
  starts(refused(parse_chat, R"({"model": "m", "messages": [{"role": "user", "content": "x", "images": "AA"}]})"),
         "field \"messages[0].images\": ");
  starts(refused(parse_chat, R"({"model": "m", "messages": [{"role": "assistant", "tool_calls":
                              [{"function": {"name": "f", "arguments": "{}"}}]}]})"),
         "field \"messages[0].tool_calls[0].function.arguments\": ");
  starts(generate_refused(R"("suffix": "y")"), "field \"suffix\": ");
  starts(generate_refused(R"("template": "y")"), "field \"template\": ");
  starts(generate_refused(R"("context": [1])"), "field \"context\": expected a field of this route");
  starts(generate_refused(R"("raw": true, "system": "s")"), "field \"system\": ");
  starts(generate_refused(R"("raw": true, "think": true)"), "field \"think\": ");
}

TEST(OllamaWriter, LinesAreOllamas) {
  const auto exchange = told(true, true);
  EXPECT_EQ(exchange->content_type, "application/x-ndjson");
  EXPECT_TRUE(exchange->complete);
  const std::string head = R"({"model":"m:latest","created_at":"2026-01-31T12:00:00Z","message":)";
  const std::string role = R"({"role":"assistant","content":)";
  EXPECT_EQ(
      exchange->body,
      cat(head, role, R"("","thinking":"Hm"},"done":false})", "\n",     //
          head, role, R"("Line\n"},"done":false})", "\n",               //
          head, role, "\"d\xc3\xa9j\xc3\xa0\"},\"done\":false}", "\n",  //
          head, role, R"("","tool_calls":[{"id":"call_1","function":{"index":0,"name":"add","arguments":)",
          R"({"a":1}}}]},"done":false})", "\n",  //
          head, role, R"("","tool_calls":[{"id":"call_2","function":{"index":1,"name":"now","arguments":)",
          R"({}}}]},"done":false})", "\n",  //
          head, role, R"(""},"done":true,"done_reason":"stop","total_duration":2000000,"load_duration":0,)",
          R"("prompt_eval_count":10,"prompt_eval_duration":1000000,"eval_count":7,"eval_duration":1000000})", "\n"));
}

TEST(OllamaWriter, StreamedIsWhole) {
  for (const bool chat : {true, false}) {
    Json joined;
    std::string content, thinking;
    Json calls = Json::array();
    for (const Json& line : lines_of(told(true, chat)->body)) {
      const Json& said = chat ? line["message"] : line;
      content += said[chat ? "content" : "response"].text();
      if (said.contains("thinking")) thinking += said["thinking"].text();
      if (said.contains("tool_calls")) calls.push_back(said["tool_calls"][0]);
      joined = line;
    }
    const Json whole = told(false, chat)->json();
    const Json& said = chat ? whole["message"] : whole;
    EXPECT_EQ(said[chat ? "content" : "response"], content);
    EXPECT_EQ(said["thinking"], thinking);
    EXPECT_EQ(said["tool_calls"], calls);
    for (const char* key : {"model", "created_at", "done", "done_reason", "eval_count", "total_duration"}) {
      EXPECT_EQ(whole[key], joined[key]) << key;
    }
  }
}

TEST(OllamaWriter, SaysWhyItEnded) {
  EXPECT_EQ(told(false, true, StopKind::length)->json()["done_reason"], "length");
  EXPECT_EQ(told(false, true, StopKind::stop)->json()["done_reason"], "stop");
  EXPECT_EQ(told(false, true, StopKind::aborted)->status, 503);
  FakeExchange exchange;
  answer_load(options_of(true, true), exchange);
  EXPECT_EQ(exchange.json()["done_reason"], "load");
}

TEST(OllamaWriter, ErrorsComeBeforeOrInTheMiddle) {
  auto exchange = std::make_shared<FakeExchange>();
  answer_writer(options_of(true, true), exchange)->failed(usage_error("no", "try"), 404);
  EXPECT_EQ(exchange->status, 404);
  EXPECT_EQ(exchange->body, R"({"error":"no; try."})");
  exchange = std::make_shared<FakeExchange>();
  auto writer = answer_writer(options_of(true, true), exchange);
  writer->piece(answer_piece(Kind::content, "Hel"));
  writer->failed(failed_error("broke", "again"), 500);
  EXPECT_EQ(lines_of(exchange->body).back().dump(), R"({"error":"broke; again."})");
  EXPECT_TRUE(exchange->complete);
}

}  // namespace
}  // namespace tern::server::ollama
