#include "server/responses/responses_writer.h"

#include <utility>
#include <vector>

#include "server/openai/answer_json.h"
#include "server/openai/api_error.h"
#include "server/sse.h"

namespace tern::server::responses {
namespace {

using io::Json;
using Kind = AnswerPiece::Kind;

// One output item: reasoning, a message or a call.
struct Item {
  Kind kind = Kind::content;
  std::string id;
  std::string call_id, name;  // of a call
  std::string text;           // of a call its arguments
  Json logprobs = Json::array();
  const char* status = "in_progress";
};

Json usage_json(const TokenUsage& usage) {
  Json out = Json::object();
  out["input_tokens"] = usage.prompt_tokens;
  Json input = Json::object();
  input["cached_tokens"] = usage.cached_tokens;
  input["cache_write_tokens"] = 0;
  out["input_tokens_details"] = std::move(input);
  out["output_tokens"] = usage.completion_tokens;
  Json output = Json::object();
  output["reasoning_tokens"] = usage.reasoning_tokens;
  out["output_tokens_details"] = std::move(output);
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return out;
}

const char* error_code(int status) {
  return status == 429 ? "rate_limit_exceeded" : status < 500 ? "invalid_prompt" : "server_error";
}

Json part_json(const Item& item) {
  Json part = Json::object();
  part["type"] = item.kind == Kind::reasoning ? "reasoning_text" : "output_text";
  part["text"] = item.text;
  if (item.kind == Kind::reasoning) return part;
  part["annotations"] = Json::array();
  part["logprobs"] = item.logprobs;
  return part;
}

// `begun`: as an item is added, before its first part.
Json item_json(const Item& item, bool begun = false) {
  Json out = Json::object();
  out["id"] = item.id;
  Json content = Json::array();
  if (!begun && item.kind != Kind::call) content.push_back(part_json(item));
  switch (item.kind) {
    case Kind::reasoning:
      out["type"] = "reasoning";
      out["summary"] = Json::array();
      out["content"] = std::move(content);
      break;
    case Kind::content:
      out["type"] = "message";
      out["role"] = "assistant";
      out["content"] = std::move(content);
      break;
    default:
      out["type"] = "function_call";
      out["call_id"] = item.call_id;
      out["name"] = item.name;
      out["arguments"] = item.text;
  }
  out["status"] = item.status;
  return out;
}

class Writer : public AnswerSink {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), exchange_(std::move(exchange)) {}

  void piece(AnswerPiece&& piece) override {
    const Kind kind = piece.kind == Kind::arguments ? Kind::call : piece.kind;
    const bool opens = piece.kind == Kind::call || !is_open_ || items_.back().kind != kind;
    if (opens) {
      if (piece.kind != Kind::call && piece.text.empty()) return;
      open(kind, std::move(piece));
      if (kind == Kind::call) return;
    }
    Json logprobs = Json::array();
    if (options_.logprobs && kind == Kind::content) {
      for (const TokenText& token : piece.tokens) {
        logprobs.push_back(openai::token_json(token));
        items_.back().logprobs.push_back(openai::token_json(token));
      }
    }
    items_.back().text += piece.text;
    if (options_.stream) send_delta(kind, std::move(piece.text), std::move(logprobs));
  }

  void ended(const AnswerEnd& end) override {
    end_ = end;
    close(end.kind == StopKind::length ? "incomplete" : "completed");
  }

  void finished(const TokenUsage& usage) override {
    if (end_.kind == StopKind::aborted) {
      failed(failed_error("the answer was ended before it was complete", "send the request again"), 503);
      return;
    }
    const bool cut = end_.kind == StopKind::length;
    Json whole = response(cut ? "incomplete" : "completed");
    if (cut) {
      whole["incomplete_details"] = Json::object();
      whole["incomplete_details"]["reason"] = "max_output_tokens";
    }
    whole["usage"] = usage_json(usage);
    if (options_.completed) options_.completed(whole);
    if (!options_.stream) {
      exchange_->respond(200, "application/json", whole.dump());
      return;
    }
    begin();
    send_response(cut ? "response.incomplete" : "response.completed", std::move(whole));
    exchange_->finish();
  }

  void failed(const Error& error, int status) override {
    if (!begun_) {
      openai::refuse(*exchange_, error, status);
      return;
    }
    if (is_open_) items_.back().status = "incomplete";
    Json whole = response("failed");
    Json said = Json::object();
    said["code"] = error_code(status);
    said["message"] = error.line();
    whole["error"] = std::move(said);
    send_response("response.failed", std::move(whole));
    exchange_->finish();
  }

 private:
  Json response(const char* status) const {
    Json out = Json::object();
    out["id"] = options_.id;
    out["object"] = "response";
    out["created_at"] = options_.created;
    out["status"] = status;
    out["error"] = Json();
    out["incomplete_details"] = Json();
    out["model"] = options_.model;
    for (const auto& [key, value] : options_.echoed.items()) out[key] = value;
    out["output"] = Json::array();
    for (const Item& item : items_) out["output"].push_back(item_json(item));
    out["usage"] = Json();
    return out;
  }

  void send(const char* type, Json event) {
    Json out = Json::object();
    out["type"] = type;
    out["sequence_number"] = sequence_++;
    for (const auto& [key, value] : event.items()) out[key] = value;
    exchange_->send(sse_event(type, out));
  }

  void send_response(const char* type, Json response) {
    Json event = Json::object();
    event["response"] = std::move(response);
    send(type, std::move(event));
  }

  void begin() {
    if (std::exchange(begun_, true)) return;
    exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
    std::vector<Item> items = std::exchange(items_, {});  // these events come before any item
    send_response("response.created", response("in_progress"));
    send_response("response.in_progress", response("in_progress"));
    items_ = std::move(items);
  }

  // Of the last item; with the place of its only part, where it has one.
  Json event_of_item(bool part) const {
    Json event = Json::object();
    event["item_id"] = items_.back().id;
    event["output_index"] = items_.size() - 1;
    if (part) event["content_index"] = 0;
    return event;
  }

  void send_item(const char* type, bool begun) {
    Json event = Json::object();
    event["output_index"] = items_.size() - 1;
    event["item"] = item_json(items_.back(), begun);
    send(type, std::move(event));
  }

  void send_part(const char* type) {
    Json event = event_of_item(true);
    event["part"] = part_json(items_.back());
    send(type, std::move(event));
  }

  void open(Kind kind, AnswerPiece&& piece) {
    close("completed");
    Item item;
    item.kind = kind;
    const std::string end = options_.id.substr(options_.id.find('_') + 1);
    item.id = cat(kind == Kind::reasoning ? "rs_" : kind == Kind::content ? "msg_" : "fc_", end, "_", items_.size());
    if (kind == Kind::call) {
      item.call_id = std::move(piece.id);
      item.name = std::move(piece.name);
    }
    items_.push_back(std::move(item));
    is_open_ = true;
    if (!options_.stream) return;
    begin();
    send_item("response.output_item.added", true);
    if (kind != Kind::call) send_part("response.content_part.added");
  }

  void send_delta(Kind kind, std::string text, Json logprobs) {
    Json event = event_of_item(kind != Kind::call);
    event["delta"] = std::move(text);
    if (kind == Kind::content) event["logprobs"] = std::move(logprobs);
    send(kind == Kind::reasoning ? "response.reasoning_text.delta"
         : kind == Kind::content ? "response.output_text.delta"
                                 : "response.function_call_arguments.delta",
         std::move(event));
  }

  void close(const char* status) {
    if (!std::exchange(is_open_, false)) return;
    Item& item = items_.back();
    item.status = status;
    if (!options_.stream) return;
    Json event = event_of_item(item.kind != Kind::call);
    if (item.kind == Kind::call) {
      event["arguments"] = item.text;
      send("response.function_call_arguments.done", std::move(event));
    } else {
      event["text"] = item.text;
      if (item.kind == Kind::content) event["logprobs"] = item.logprobs;
      send(item.kind == Kind::reasoning ? "response.reasoning_text.done" : "response.output_text.done",
           std::move(event));
      send_part("response.content_part.done");
    }
    send_item("response.output_item.done", false);
  }

  WriterOptions options_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<Item> items_;
  AnswerEnd end_;
  std::int64_t sequence_ = 0;
  bool begun_ = false, is_open_ = false;
};

}  // namespace

std::shared_ptr<AnswerSink> responses_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

}  // namespace tern::server::responses
