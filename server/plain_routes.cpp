#include "server/plain_routes.h"

#include "io/json.h"
#include "server/json_answer.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"
#include "server/openai/chat_completions.h"
#include "server/openai/messages.h"

namespace tern::server {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

void health(const ChatService& service, const Exchange& exchange) {
  if (const auto why = service.dead()) {
    openai::refuse(*exchange, *why, 503);
    return;
  }
  exchange->respond(200, "application/json", "{}");
}

void refuse_unknown(ChatService& service, JsonBody& body) {
  if (const auto refusal = service.unknown_model(body.text("model").value_or(""))) throw Failure(refusal->error);
}

void tell_tokens(const ChatService& service, const engine::TokenIds& ids, bool pieces, const Exchange& exchange) {
  Json out = Json::object();
  out["count"] = ids.size();
  out["max_model_len"] = service.max_model_len();
  out["tokens"] = Json(ids);
  Json texts;
  if (pieces) {
    for (const auto id : ids) texts.push_back(std::string(service.tokenizer().id_to_piece(id)));
  }
  out["token_strs"] = std::move(texts);
  respond(exchange, out);
}

void tokenize(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  refuse_unknown(service, body);
  const bool pieces = body.boolean("return_token_strs").value_or(false);
  if (body.find("messages") != nullptr) {
    ChatRequest chat;
    chat.record = request.record;
    chat.dialogue = openai::dialogue_fields(body);
    chat.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
    chat.continue_final_message = body.boolean("continue_final_message").value_or(false);
    if (auto kwargs = body.object("chat_template_kwargs")) chat.template_kwargs = kwargs->json().dump();
    body.takes({"add_special_tokens"});  // the template writes them
    body.finish();
    const auto fetch = service.find_prompt_ids(chat, [&service, exchange, pieces](ChatService::FoundIds&& found) {
      if (found.refusal) return openai::refuse(*exchange, found.refusal->error, found.refusal->status);
      tell_tokens(service, found.ids, pieces, exchange);
    });
    cancel_when_gone(*exchange, fetch);
    return;
  }
  const auto ids =
      service.tokenizer().encode(body.required_text("prompt"), body.boolean("add_special_tokens").value_or(true));
  body.finish();
  tell_tokens(service, ids, pieces, exchange);
}

void detokenize(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  refuse_unknown(service, body);
  if (body.find("tokens") == nullptr) throw body.wrong("tokens", "a list of token ids");
  engine::TokenIds ids;
  for (const std::int64_t id : body.integers("tokens")) {
    if (id < 0 || id >= service.tokenizer().vocab_size()) throw body.wrong("tokens", "ids of the model's tokens");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  body.finish();
  Json out = Json::object();
  out["prompt"] = service.tokenizer().decode(ids, false);
  respond(exchange, out);
}

}  // namespace

void add_plain_routes(Router& router, ChatService& service, const std::string& version) {
  const auto add_open = [&](const char* method, const char* path, RouteHandler handler) {
    router.add(Route{.method = method, .path = path, .handler = std::move(handler), .open = true, .quick = true});
  };
  const RouteHandler alive = [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
    health(service, exchange);
  };
  add_open("GET", "/health", alive);
  add_open("GET", "/ping", alive);
  add_open("POST", "/ping", alive);
  router.add(Route{.method = "GET",
                   .path = "/version",
                   .handler =
                       [version](const HttpRequest&, const std::string&, const Exchange& exchange) {
                         Json out = Json::object();
                         out["version"] = version;
                         respond(exchange, out);
                       },
                   .quick = true});
  router.add(Route{.method = "GET",
                   .path = "/load",
                   .handler =
                       [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
                         const engine::EngineStats stats = service.stats();
                         Json out = Json::object();
                         out["server_load"] = stats.running + stats.waiting;
                         respond(exchange, out);
                       },
                   .quick = true});
  router.add(Route{.method = "GET",
                   .path = "/metrics",
                   .handler =
                       [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
                         exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", service.metrics_page());
                       },
                   .quick = true});
  router.add("POST", "/sleep", [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
    if (!service.sleep()) {
      openai::refuse(*exchange, failed_error("requests are on their way", "ask again when they have ended"), 409);
      return;
    }
    exchange->respond(200, "application/json", "{}");
  });
  router.add("POST", "/wake_up", [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
    service.run([](engine::LLM& llm) { llm.be_ready(); });
    exchange->respond(200, "application/json", "{}");
  });
  router.add(Route{.method = "GET",
                   .path = "/is_sleeping",
                   .handler =
                       [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
                         exchange->respond(
                             200, "application/json",
                             service.stats().sleeps ? R"({"is_sleeping": true})" : R"({"is_sleeping": false})");
                       },
                   .quick = true});
  router.add("POST", "/tokenize", [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    tokenize(service, request, exchange);
  });
  router.add("POST", "/detokenize",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               detokenize(service, request, exchange);
             });
}

}  // namespace tern::server
