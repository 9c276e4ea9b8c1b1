#include "server/anthropic/routes.h"

#include "io/json.h"
#include "server/anthropic/messages_request.h"
#include "server/anthropic/messages_writer.h"
#include "server/ids.h"
#include "server/image_fetcher.h"
#include "server/json_answer.h"

namespace tern::server::anthropic {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;

void messages(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  MessagesRequest asked = parse_messages(request.body);
  asked.chat.record = request.record;
  WriterOptions options;
  options.id = random_id("msg_");
  options.model = asked.chat.model;
  options.stream = asked.stream;
  auto handle = service.chat(std::move(asked.chat), messages_writer(std::move(options), exchange));
  // A client that goes away is not answered any further.
  if (handle != nullptr) exchange->on_gone([handle] { handle->abort(); });
}

void count_tokens(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  ChatRequest asked = parse_count_tokens(request.body);
  if (const auto refusal = service.unknown_model(asked.model)) {
    refuse(*exchange, refusal->error, refusal->status);
    return;
  }
  asked.record = request.record;
  const auto fetch = service.find_prompt_ids(asked, [exchange](ChatService::FoundIds&& found) {
    if (found.refusal) return refuse(*exchange, found.refusal->error, found.refusal->status);
    io::Json out = io::Json::object();
    out["input_tokens"] = found.ids.size();
    respond(exchange, out);
  });
  cancel_when_gone(*exchange, fetch);
}

}  // namespace

void add_routes(Router& router, ChatService& service) {
  router.add("POST", "/v1/messages",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               messages(service, request, exchange);
             });
  router.add("POST", "/v1/messages/count_tokens",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               count_tokens(service, request, exchange);
             });
}

}  // namespace tern::server::anthropic
