#include "server/rollout/routes.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "io/json.h"
#include "models/registry.h"
#include "server/json_answer.h"
#include "server/openai/api_error.h"
#include "server/rollout/swift_routes.h"
#include "server/rollout/trl_routes.h"
#include "server/rollout/weight_routes.h"
#include "server/rollout/weight_transfer.h"

namespace tern::server::rollout {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

Json one_member(const char* key, Json value) {
  Json out = Json::object();
  out[key] = std::move(value);
  return out;
}

// What TRL reads of vLLM's configuration: which dtype weights have, and that there's no other way for them than HTTP.
Json server_info(const ChatService& service) {
  Json model = Json::object();
  model["model"] = service.model_names().front();
  model["dtype"] = cat("torch.", dtype_info(service.session().model.dtype).torch);
  model["max_model_len"] = service.max_model_len();
  Json parallel = Json::object();
  for (const char* key : {"tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size"}) parallel[key] = 1;
  Json config = Json::object();
  config["model_config"] = std::move(model);
  config["parallel_config"] = std::move(parallel);
  config["weight_transfer_config"] = Json();
  return one_member("vllm_config", std::move(config));
}

void add_routes(Router& router, ChatService& service) {
  const auto weights = std::make_shared<WeightTransfer>(service);
  add_trl_routes(router, service, weights);
  add_swift_routes(router, service, weights);
  add_weight_routes(router, service, weights);
  // Clients differ in the slash at the end.
  const auto add = [&](const char* method, const std::string& path,
                       const std::function<void(const Exchange&)>& answer) {
    for (const char* end : {"", "/"}) {
      router.add(method, path + end,
                 [answer](const HttpRequest&, const std::string&, const Exchange& exchange) { answer(exchange); });
    }
  };
  router.add(Route{.method = "GET",
                   .path = "/health/",
                   .handler =
                       [&service](const HttpRequest&, const std::string&, const Exchange& exchange) {
                         if (const auto why = service.dead()) return openai::refuse(*exchange, *why, 503);
                         respond(exchange, one_member("status", "ok"));
                       },
                   .open = true,
                   .quick = true});
  add("GET", "/get_world_size", [](const Exchange& exchange) { respond(exchange, one_member("world_size", 1)); });
  add("GET", "/server_info", [&service](const Exchange& exchange) { respond(exchange, server_info(service)); });
  const std::string keys = one_member("keys", Json(models::weight_names(service.session().model))).dump();
  add("GET", "/get_model_state_keys",
      [keys](const Exchange& exchange) { exchange->respond(200, "application/json", keys); });
  add("POST", "/get_engine_type", [](const Exchange& exchange) {
    Json out = one_member("engine_type", "LLMEngine");
    for (const char* key : {"enable_multi_turn", "use_gym_env", "enable_lora"}) out[key] = false;
    respond(exchange, out);
  });
  add("POST", "/reset_prefix_cache", [&service](const Exchange& exchange) {
    service.run([](engine::LLM& llm) { llm.engine().reset_prefix_cache(); });
    Json out = one_member("message", "Request received, resetting prefix cache status: True");
    out["success"] = true;
    respond(exchange, out);
  });
  add("POST", "/sleep", [](const Exchange& exchange) {
    openai::refuse(*exchange, failed_error("weights that a trainer sent can't be read again", "use /pause"), 400);
  });
  // Features of images stay with their requests: there is nothing that others could find.
  for (const char* cache : {"encoder", "mm"}) {
    add("POST", cat("/reset_", cache, "_cache"), [cache](const Exchange& exchange) {
      respond(exchange, one_member("message", cat("Request received, resetting ", cache, " cache status: True")));
    });
  }
}

}  // namespace

void take_weights(HttpOptions& options, const models::ModelConfig& config) {
  constexpr std::uint64_t kHeader = 1U << 20;
  constexpr std::chrono::minutes kBody{10};
  std::uint64_t largest = 1U << 30;
  for (const models::ParameterSpec& spec : models::parameters_of(config)) {
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t size : spec.shape) bytes *= static_cast<std::uint64_t>(size);
    largest = std::max(largest, bytes + kHeader);
  }
  options.max_body_bytes = largest;
  options.max_bodies_bytes = std::max<std::size_t>(options.max_bodies_bytes, 2 * largest);  // the next comes meanwhile
  options.receive_timeout = kBody;
}

void serve_trainers(ServerOptions& options) {
  options.service.sampling.processed_logprobs = true;
  options.more_routes = add_routes;
}

}  // namespace tern::server::rollout
