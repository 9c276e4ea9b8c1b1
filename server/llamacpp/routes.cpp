#include "server/llamacpp/infill.h"

namespace tern::server::llamacpp {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;

void infill(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  InfillRequest asked = parse_infill(request.body);
  SamplingWishes& wishes = asked.completion.sampling;
  asked.gap.most_tokens = service.max_model_len() - wishes.max_tokens.value_or(1);
  FimPrompt prompt = fim_prompt(service.tokenizer(), asked.gap).value();
  wishes.stop_token_ids.insert(wishes.stop_token_ids.end(), prompt.stop_token_ids.begin(), prompt.stop_token_ids.end());
  asked.completion.prompt = std::move(prompt.ids);
  WriterOptions options;
  options.model = asked.completion.model.empty() ? service.model_names().front() : asked.completion.model;
  options.stream = asked.stream;
  options.silent = asked.silent;
  options.n_indent = asked.n_indent;
  options.most_ms = asked.most_ms;
  options.fields = std::move(asked.fields);
  options.clock = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  const auto writer = infill_writer(std::move(options), exchange);
  auto handle = service.complete(std::move(asked.completion), writer);
  if (handle == nullptr) return;
  writer->ends_by([handle] { handle->abort(); });
  // A client that goes away is not answered any further.
  exchange->on_gone([handle] { handle->abort(); });
}

}  // namespace

void add_routes(Router& router, ChatService& service) {
  router.add("POST", "/infill", [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    infill(service, request, exchange);
  });
}

}  // namespace tern::server::llamacpp
