#include "server/openai/routes.h"

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"
#include "server/fim_prompt.h"
#include "server/ids.h"
#include "server/json_answer.h"
#include "server/openai/adapters.h"
#include "server/openai/api_error.h"
#include "server/openai/chat_completions.h"
#include "server/openai/completions.h"
#include "server/openai/embeddings.h"

namespace tern::server::openai {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

WriterOptions writer_options(const ChatService& service, const char* prefix, const std::string& model) {
  WriterOptions options;
  options.id = random_id(prefix);
  options.model = model.empty() ? service.model_names().front() : model;
  options.created = unix_time();
  return options;
}

// A client that goes away is not answered any further.
void abort_when_gone(const Exchange& exchange, const std::shared_ptr<RequestHandle>& handle) {
  if (handle != nullptr) exchange->on_gone([handle] { handle->abort(); });
}

void chat_completions(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  ChatCompletionRequest asked = parse_chat_completion(request.body);
  asked.chat.record = request.record;
  WriterOptions options = writer_options(service, "chatcmpl-", asked.chat.model);
  options.stream = asked.stream;
  options.logprobs = asked.logprobs;
  options.n = asked.chat.n;
  options.tokens_as_ids = asked.tokens_as_ids;
  options.echo = std::move(asked.echo);
  auto writer = chat_completion_writer(std::move(options), exchange);
  abort_when_gone(exchange, service.chat(std::move(asked.chat), std::move(writer)));
}

std::string echoed(const ChatService& service, const engine::Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return service.tokenizer().decode(std::get<engine::TokenIds>(prompt), true);
}

// The request asks for what is missing between its prompt and the suffix.
void fill_gap(const ChatService& service, const std::string& suffix, CompletionRequest& request) {
  FimRequest gap;
  gap.prefix = std::get<std::string>(request.prompt);
  gap.suffix = suffix;
  auto prompt = fim_prompt(service.tokenizer(), gap);
  if (!prompt) throw Failure(prompt.error().inside(R"(field "suffix")"));
  auto& stops = request.sampling.stop_token_ids;
  stops.insert(stops.end(), prompt->stop_token_ids.begin(), prompt->stop_token_ids.end());
  request.prompt = std::move(prompt->ids);
}

void completions(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  CompletionBatch asked = parse_completion(request.body);
  const CompletionRequest& first = asked.requests.front();
  WriterOptions options = writer_options(service, "cmpl-", first.model);
  options.stream = asked.stream;
  options.logprobs = asked.logprobs;
  options.n = first.n;
  options.told = asked.n;
  options.prompt_alone = asked.prompt_alone;
  options.tokens_as_ids = asked.tokens_as_ids;
  std::vector<std::string> echoes;
  for (CompletionRequest& one : asked.requests) {
    if (one.echo) echoes.push_back(echoed(service, one.prompt));
    if (!asked.suffix.empty()) fill_gap(service, asked.suffix, one);
    if (const auto* text = std::get_if<std::string>(&one.prompt); text != nullptr && !asked.add_special_tokens) {
      one.prompt = service.tokenizer().encode(*text, false);
    }
  }
  const auto writers = completion_writers(std::move(options), asked.requests.size(), std::move(echoes), exchange);
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    asked.requests[i].record = request.record;
    auto handle = service.complete(std::move(asked.requests[i]), writers[i]);
    if (handle != nullptr) handles.push_back(std::move(handle));
  }
  exchange->on_gone([handles = std::move(handles)] {
    for (const auto& handle : handles) handle->abort();
  });
}

Json model_json(const ChatService& service, const std::string& name, std::int64_t created) {
  Json out = Json::object();
  out["id"] = name;
  out["object"] = "model";
  out["created"] = created;
  out["owned_by"] = "tern";
  out["root"] = service.model_names().front();
  const auto& own = service.model_names();
  const bool is_adapter = std::ranges::find(own, name) == own.end();
  out["parent"] = is_adapter ? Json(own.front()) : Json();
  out["max_model_len"] = service.max_model_len();
  return out;
}

void list_models(const ChatService& service, std::int64_t created, const Exchange& exchange) {
  Json out = Json::object();
  out["object"] = "list";
  out["data"] = Json::array();
  for (const std::string& name : service.all_names()) out["data"].push_back(model_json(service, name, created));
  respond(exchange, out);
}

void show_model(const ChatService& service, std::int64_t created, const std::string& name, const Exchange& exchange) {
  if (const auto refusal = service.unknown_model(name)) {
    refuse(*exchange, refusal->error, refusal->status);
    return;
  }
  exchange->respond(200, "application/json", model_json(service, name, created).dump());
}

}  // namespace

void add_routes(Router& router, ChatService& service) {
  const std::int64_t created = unix_time();
  router.add("POST", "/v1/chat/completions",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               chat_completions(service, request, exchange);
             });
  router.add("POST", "/v1/completions",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               completions(service, request, exchange);
             });
  router.add("POST", "/v1/embeddings",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               answer_embeddings(service, request, exchange);
             });
  add_adapter_routes(router, service);
  router.add("GET", "/v1/models",
             [&service, created](const HttpRequest&, const std::string&, const Exchange& exchange) {
               list_models(service, created, exchange);
             });
  router.add("GET", "/v1/models/*",
             [&service, created](const HttpRequest&, const std::string& name, const Exchange& exchange) {
               show_model(service, created, name, exchange);
             });
}

}  // namespace tern::server::openai
