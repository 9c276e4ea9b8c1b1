#include "server/openai/adapters.h"

#include "base/strings.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"

namespace tern::server::openai {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;

// A client that may name a directory has the server read it, so that the server's owner must have allowed it.
bool refuse_unless_allowed(const ChatService& service, const Exchange& exchange) {
  if (service.options().loads_adapters) return false;
  refuse(*exchange,
         failed_error("this server loads no adapters for its clients",
                      "start it with --enable_lora true, or name the "
                      "adapters in --adapters"),
         403);
  return true;
}

void load(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  if (refuse_unless_allowed(service, exchange)) return;
  JsonBody body(request.body);
  engine::NamedAdapter adapter;
  adapter.name = body.required_text("lora_name");
  adapter.path = body.required_text("lora_path");
  const bool replace = body.boolean("load_inplace").value_or(false);
  body.finish();
  if (adapter.name.empty()) throw body.wrong("lora_name", "a name");
  service.load_adapter(adapter, replace).value();
  exchange->respond(200, "text/plain; charset=utf-8",
                    cat("Success: LoRA adapter '", adapter.name, "' added successfully."));
}

void unload(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  if (refuse_unless_allowed(service, exchange)) return;
  JsonBody body(request.body);
  const std::string name = body.required_text("lora_name");
  body.takes({"lora_int_id"});  // vLLM's own number of it
  body.finish();
  if (!service.adapters().unload(name)) {
    refuse(*exchange,
           data_error("field \"lora_name\"", "an adapter that is loaded", name,
                      "ask for one that /v1/models lists below the model"),
           404);
    return;
  }
  exchange->respond(200, "text/plain; charset=utf-8", cat("Success: LoRA adapter '", name, "' removed successfully."));
}

}  // namespace

void add_adapter_routes(Router& router, ChatService& service) {
  router.add("POST", "/v1/load_lora_adapter",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               load(service, request, exchange);
             });
  router.add("POST", "/v1/unload_lora_adapter",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               unload(service, request, exchange);
             });
}

}  // namespace tern::server::openai
