#include "server/anthropic/messages_writer.h"

#include <utility>
#include <vector>

#include "io/json.h"
#include "server/sse.h"

namespace tern::server::anthropic {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json error_json(const Error& error, int status) {
  Json inner = Json::object();
  inner["type"] = error_type(status);
  inner["message"] = error.line();
  Json out = Json::object();
  out["type"] = "error";
  out["error"] = std::move(inner);
  return out;
}

// As Anthropic counts: tokens that the cache had are none of the input's.
Json usage_json(const TokenUsage& usage) {
  Json out = Json::object();
  out["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  out["cache_creation_input_tokens"] = 0;
  out["cache_read_input_tokens"] = usage.cached_tokens;
  out["output_tokens"] = usage.completion_tokens;
  return out;
}

// One content block: what its start says, and what was added to it.
struct Block {
  Kind kind = Kind::content;  // reasoning, content or call
  std::string id, name;       // of a call
  std::string text;           // of a call its arguments
};

Json block_json(const Block& block) {
  Json out = Json::object();
  switch (block.kind) {
    case Kind::reasoning:
      out["type"] = "thinking";
      out["thinking"] = block.text;
      out["signature"] = "";
      break;
    case Kind::content:
      out["type"] = "text";
      out["text"] = block.text;
      break;
    default:
      out["type"] = "tool_use";
      out["id"] = block.id;
      out["name"] = block.name;
      out["input"] = Json::object();
  }
  return out;
}

class Writer : public AnswerSink {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), exchange_(std::move(exchange)) {}

  void piece(AnswerPiece&& piece) override {
    if (piece.kind == Kind::call) {
      open(Block{Kind::call, std::move(piece.id), std::move(piece.name), {}});
      return;
    }
    if (piece.text.empty()) return;
    const Kind kind = piece.kind == Kind::arguments ? Kind::call : piece.kind;
    if (!is_open_ || blocks_.back().kind != kind) open(Block{kind, {}, {}, {}});
    blocks_.back().text += piece.text;
    if (options_.stream) send_delta(kind, std::move(piece.text));
  }

  void ended(const AnswerEnd& end) override {
    close();
    end_ = end;
  }

  void finished(const TokenUsage& usage) override {
    close();
    if (end_.kind == StopKind::aborted) {
      failed(failed_error("the answer was ended before it was complete", "send the request again"), 503);
      return;
    }
    if (!options_.stream) {
      exchange_->respond(200, "application/json", whole(usage).dump());
      return;
    }
    begin();
    Json event = Json::object();
    Json delta = Json::object();
    put_stop(delta);
    event["type"] = "message_delta";
    event["delta"] = std::move(delta);
    event["usage"] = usage_json(usage);
    send(event);
    Json stop = Json::object();
    stop["type"] = "message_stop";
    send(stop);
    exchange_->finish();
  }

  void failed(const Error& error, int status) override {
    if (!begun_) {
      refuse(*exchange_, error, status);
      return;
    }
    send(error_json(error, status));
    exchange_->finish();
  }

 private:
  void send(const Json& event) { exchange_->send(sse_event(event["type"].text(), event)); }

  Json event_of(const char* type) const {
    Json event = Json::object();
    event["type"] = type;
    event["index"] = blocks_.size() - 1;
    return event;
  }

  Json message(Json content, Json usage) const {
    Json out = Json::object();
    out["id"] = options_.id;
    out["type"] = "message";
    out["role"] = "assistant";
    out["model"] = options_.model;
    out["content"] = std::move(content);
    out["stop_reason"] = Json();
    out["stop_sequence"] = Json();
    out["usage"] = std::move(usage);
    return out;
  }

  void begin() {
    if (std::exchange(begun_, true)) return;
    exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
    Json event = Json::object();
    event["type"] = "message_start";
    event["message"] = message(Json::array(), usage_json({}));  // message_delta tells the numbers
    send(event);
    Json ping = Json::object();
    ping["type"] = "ping";
    send(ping);
  }

  void open(Block block) {
    close();
    blocks_.push_back(std::move(block));
    is_open_ = true;
    if (!options_.stream) return;
    begin();
    Json event = event_of("content_block_start");
    event["content_block"] = block_json(blocks_.back());
    send(event);
  }

  void close() {
    if (!std::exchange(is_open_, false) || !options_.stream) return;
    // Anthropic's says that its thoughts are its own. There is nothing to prove here, but clients ask for one.
    if (blocks_.back().kind == Kind::reasoning) {
      Json delta = Json::object();
      delta["type"] = "signature_delta";
      delta["signature"] = options_.id;
      send_delta(std::move(delta));
    }
    send(event_of("content_block_stop"));
  }

  void send_delta(Json delta) {
    Json event = event_of("content_block_delta");
    event["delta"] = std::move(delta);
    send(event);
  }

  void send_delta(Kind kind, std::string text) {
    Json delta = Json::object();
    delta["type"] = kind == Kind::reasoning ? "thinking_delta"
                    : kind == Kind::content ? "text_delta"
                                            : "input_json_delta";
    delta[kind == Kind::reasoning ? "thinking" : kind == Kind::content ? "text" : "partial_json"] = std::move(text);
    send_delta(std::move(delta));
  }

  void put_stop(Json& out) const {
    const bool by_text = end_.kind == StopKind::stop && !end_.stop_text.empty();
    out["stop_reason"] = end_.kind == StopKind::length       ? "max_tokens"
                         : end_.kind == StopKind::tool_calls ? "tool_use"
                         : by_text                           ? "stop_sequence"
                                                             : "end_turn";
    out["stop_sequence"] = by_text ? Json(end_.stop_text) : Json();
  }

  // A call whose arguments the length cut off is no JSON, and left out: stop_reason says why.
  Json whole(const TokenUsage& usage) const {
    Json content = Json::array();
    for (const Block& one : blocks_) {
      Json block = block_json(one);
      if (one.kind == Kind::reasoning) block["signature"] = options_.id;
      if (one.kind == Kind::call && !one.text.empty()) {
        auto input = io::parse_json(one.text, "arguments");
        if (!input.ok() || !input->is_object()) continue;
        block["input"] = *std::move(input);
      }
      content.push_back(std::move(block));
    }
    Json out = message(std::move(content), usage_json(usage));
    put_stop(out);
    return out;
  }

  WriterOptions options_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<Block> blocks_;
  AnswerEnd end_;
  bool begun_ = false, is_open_ = false;
};

}  // namespace

std::string error_body(const Error& error, int status) { return error_json(error, status).dump(); }

void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers) {
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  exchange.respond(status, "application/json", error_body(error, status), std::move(headers));
}

std::shared_ptr<AnswerSink> messages_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

}  // namespace tern::server::anthropic
