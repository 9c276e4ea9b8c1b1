#include "server/ollama/answer_writer.h"

#include <utility>

#include "server/openai/answer_json.h"

namespace tern::server::ollama {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;
constexpr const char* kJson = "application/json; charset=utf-8";

Json error_json(const Error& error) {
  Json out = Json::object();
  out["error"] = error.line();
  return out;
}

// What a line says of the answer, or all lines.
struct Said {
  std::string content, thinking;
  Json calls = Json::array();
  Json logprobs = Json::array();
};

Json line_of(const WriterOptions& options, Said said) {
  Json out = Json::object();
  out["model"] = options.model;
  out["created_at"] = options.created_at;
  Json message = Json::object();
  if (options.chat) message["role"] = "assistant";
  message[options.chat ? "content" : "response"] = std::move(said.content);
  if (!said.thinking.empty()) message["thinking"] = std::move(said.thinking);
  if (!said.calls.empty()) message["tool_calls"] = std::move(said.calls);
  if (options.chat) {
    out["message"] = std::move(message);
  } else {
    for (const auto& [key, value] : message.items()) out[key] = value;
  }
  if (!said.logprobs.empty()) out["logprobs"] = std::move(said.logprobs);
  out["done"] = false;
  return out;
}

class Writer : public AnswerSink {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), exchange_(std::move(exchange)), begin_(options_.clock()) {}

  void piece(AnswerPiece&& piece) override {
    if (!first_) first_ = options_.clock();
    Said said;
    if (options_.logprobs) {
      for (const TokenText& token : piece.tokens) said.logprobs.push_back(openai::token_json(token));
    }
    switch (piece.kind) {
      case Kind::content:
        said.content = std::move(piece.text);
        break;
      case Kind::reasoning:
        said.thinking = std::move(piece.text);
        break;
      case Kind::call:
        finish_call(said);
        call_ = Call{std::move(piece.id), std::move(piece.name), {}};
        break;
      case Kind::arguments:
        if (call_) call_->arguments += piece.text;
        break;
    }
    say(std::move(said));
  }

  void ended(const AnswerEnd& end) override {
    end_ = end;
    Said said;
    finish_call(said);
    say(std::move(said));
  }

  void finished(const TokenUsage& usage) override {
    if (end_.kind == StopKind::aborted) {
      failed(failed_error("the answer was ended before it was complete", "send the request again"), 503);
      return;
    }
    const auto end = options_.clock(), first = first_.value_or(end);
    Json last = line_of(options_, std::move(all_));
    last["done"] = true;
    last["done_reason"] = end_.kind == StopKind::length ? "length" : "stop";
    last["total_duration"] = (end - begin_).count();
    last["load_duration"] = 0;
    last["prompt_eval_count"] = usage.prompt_tokens;
    last["prompt_eval_duration"] = (first - begin_).count();
    last["eval_count"] = usage.completion_tokens;
    last["eval_duration"] = (end - first).count();
    if (!options_.stream) {
      exchange_->respond(200, kJson, last.dump());
      return;
    }
    send(last);
    exchange_->finish();
  }

  void failed(const Error& error, int status) override {
    if (!begun_) {
      refuse(*exchange_, error, status);
      return;
    }
    send(error_json(error));
    exchange_->finish();
  }

 private:
  struct Call {
    std::string id, name, arguments;
  };

  // Ollama tells calls whole. One whose arguments the length cut off is no JSON, and left out: done_reason says why.
  void finish_call(Said& said) {
    if (!call_) return;
    const Call call = *std::exchange(call_, std::nullopt);
    auto arguments = io::parse_json(call.arguments.empty() ? "{}" : call.arguments, "arguments");
    if (!arguments.ok() || !arguments->is_object()) return;
    Json function = Json::object();
    function["index"] = calls_++;
    function["name"] = call.name;
    function["arguments"] = *std::move(arguments);
    Json out = Json::object();
    out["id"] = call.id;
    out["function"] = std::move(function);
    said.calls.push_back(std::move(out));
  }

  void say(Said said) {
    if (said.content.empty() && said.thinking.empty() && said.calls.empty() && said.logprobs.empty()) return;
    if (options_.stream) {
      send(line_of(options_, std::move(said)));
      return;
    }
    all_.content += said.content;
    all_.thinking += said.thinking;
    for (const Json& one : said.calls) all_.calls.push_back(one);
    for (const Json& one : said.logprobs) all_.logprobs.push_back(one);
  }

  void send(const Json& line) {
    if (!std::exchange(begun_, true)) exchange_->begin(200, "application/x-ndjson", {{"Cache-Control", "no-cache"}});
    exchange_->send(line.dump() + "\n");
  }

  WriterOptions options_;
  std::shared_ptr<HttpExchange> exchange_;
  std::chrono::nanoseconds begin_;
  std::optional<std::chrono::nanoseconds> first_;  // when the first piece came
  std::optional<Call> call_;                       // whose arguments are coming
  std::int64_t calls_ = 0;
  Said all_;  // of an answer that is sent whole
  AnswerEnd end_;
  bool begun_ = false;
};

}  // namespace

std::shared_ptr<AnswerSink> answer_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

void answer_load(const WriterOptions& options, HttpExchange& exchange) {
  Json out = line_of(options, {});
  out["done"] = true;
  out["done_reason"] = "load";
  exchange.respond(200, kJson, out.dump());
}

void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers) {
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  exchange.respond(status, kJson, error_json(error).dump(), std::move(headers));
}

}  // namespace tern::server::ollama
