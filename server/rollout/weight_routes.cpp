#include "server/rollout/weight_routes.h"

#include "base/strings.h"
#include "io/json.h"
#include "server/json_answer.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"
#include "server/rollout/query.h"
#include "server/rollout/weight_transfer.h"

namespace tern::server::rollout {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;
using Weights = std::shared_ptr<WeightTransfer>;

Json message(std::string text) {
  Json out = Json::object();
  out["message"] = std::move(text);
  return out;
}

Json done_json(const WeightTransfer::Done& done, std::string text) {
  Json out = message(std::move(text));
  out["success"] = true;
  out["weight_version"] = done.version;
  out["parameters"] = done.update.parameters;
  out["parameters_of_model"] = done.update.of;
  out["bytes"] = done.update.bytes;
  return out;
}

// Bodies may be absent altogether.
JsonBody body_of(const HttpRequest& request) {
  return JsonBody(request.body.empty() ? std::string_view("{}") : std::string_view(request.body));
}

bool is_json(const HttpRequest& request) {
  return request.header("content-type").find("json") != std::string_view::npos;
}

Failure no_transfer() {
  return Failure(failed_error("this server has no communicator: weights can't come by NCCL or HCCL",
                              "POST them to /update_weights as a safetensors file, or name a directory to "
                              "/update_weights_from_disk"));
}

void update(const Weights& weights, const HttpRequest& request, const Exchange& exchange) {
  if (is_json(request)) {  // vLLM's update_info, whose tensors would come by another way
    openai::refuse(*exchange, no_transfer().error(), 501);
    return;
  }
  const Query query(request.query);
  const auto version = query.text("weight_version");
  query.finish();
  if (request.body.empty()) {
    throw Failure(data_error("body", "the bytes of a safetensors file", "nothing",
                             "send them with Content-Type: application/octet-stream"));
  }
  const auto part = weights->keep(request.body);
  if (!part) {
    respond(exchange, done_json(weights->write(request.body, version), "Weights updated"));
    return;
  }
  if (version) {
    throw Failure(
        data_error("weight_version", "none for a part of an update", *version, "give it to /finish_weight_update"));
  }
  Json out = message("Weights received");
  out["tensors"] = part->tensors;
  out["staged_tensors"] = part->staged;
  out["staged_bytes"] = part->staged_bytes;
  respond(exchange, out);
}

void start(const Weights& weights, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body = body_of(request);
  if (!body.boolean("is_checkpoint_format").value_or(true)) {
    throw body.wrong("is_checkpoint_format", "true: tensors have Hugging Face's names and shapes");
  }
  body.finish();
  weights->start();
  respond(exchange, message("Weight update started"));
}

void finish(const Weights& weights, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body = body_of(request);
  const auto version = body.text("weight_version");
  body.finish();
  respond(exchange, done_json(weights->finish(version), "Weight update finished"));
}

void from_disk(ChatService& service, const Weights& weights, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body = body_of(request);
  const std::string path = body.required_text("model_path");
  const auto version = body.text("weight_version");
  const bool aborts = body.boolean("abort_all_requests").value_or(false);
  if (body.text("load_format").value_or("auto") != "auto") throw body.wrong("load_format", "auto");
  if (!body.boolean("flush_cache").value_or(true)) {
    throw body.wrong("flush_cache", "true: what was computed with other weights is forgotten");
  }
  body.takes({"torch_empty_cache", "is_async", "keep_pause", "recapture_cuda_graph", "token_step"});
  body.finish();
  const bool was_paused = service.paused();
  if (aborts) service.pause(engine::PauseMode::abort);
  const auto done = catching([&] { return weights->load(path, version); });
  const bool is_sound = done || done.error().kind != ErrorKind::device;
  if (aborts && !was_paused && is_sound) service.resume();
  Json out = done_json(done.value(), "Succeeded to update model weights.");
  out["num_paused_requests"] = 0;
  respond(exchange, out);
}

void pause(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  const Query query(request.query);
  const std::string mode = query.text("mode").value_or("abort");
  const bool waits = query.text("wait_for_inflight_requests").value_or("false") == "true";
  (void)query.text("clear_cache");  // it is forgotten where weights change, and good until then
  query.finish();
  if (mode != "abort" && mode != "wait" && mode != "keep") {
    throw Failure(data_error("mode", "abort, wait or keep", mode, "name one of them"));
  }
  service.pause(mode == "keep"            ? engine::PauseMode::keep
                : mode == "wait" || waits ? engine::PauseMode::wait
                                          : engine::PauseMode::abort);
  Json out = Json::object();
  out["status"] = "paused";
  respond(exchange, out);
}

}  // namespace

void add_weight_routes(Router& router, ChatService& service, const Weights& weights) {
  using Answer = std::function<void(const HttpRequest& request, const Exchange& exchange)>;
  const auto add = [&](const char* method, const std::string& path, const Answer& answer) {
    for (const char* end : {"", "/"}) {
      router.add(method, path + end,
                 [answer](const HttpRequest& request, const std::string&, const Exchange& exchange) {
                   answer(request, exchange);
                 });
    }
  };
  add("POST", "/start_weight_update",
      [weights](const auto& request, const auto& exchange) { start(weights, request, exchange); });
  add("POST", "/update_weights",
      [weights](const auto& request, const auto& exchange) { update(weights, request, exchange); });
  add("POST", "/finish_weight_update",
      [weights](const auto& request, const auto& exchange) { finish(weights, request, exchange); });
  add("POST", "/update_weights_from_disk", [&service, weights](const auto& request, const auto& exchange) {
    from_disk(service, weights, request, exchange);
  });
  add("GET", "/weight_info", [weights](const auto&, const auto& exchange) {
    Json out = Json::object();
    out["weight_version"] = weights->version();
    respond(exchange, out);
  });
  add("POST", "/update_weight_version", [weights](const auto& request, const auto& exchange) {
    JsonBody body = body_of(request);
    const std::string version = body.required_text("new_version");
    body.finish();
    weights->set_version(version);
    Json out = Json::object();
    out["success"] = true;
    out["new_version"] = version;
    respond(exchange, out);
  });
  add("POST", "/pause", [&service](const auto& request, const auto& exchange) { pause(service, request, exchange); });
  add("POST", "/resume", [&service](const auto&, const auto& exchange) {
    service.resume();
    Json out = Json::object();
    out["status"] = "resumed";
    respond(exchange, out);
  });
  add("GET", "/is_paused", [&service](const auto&, const auto& exchange) {
    Json out = Json::object();
    out["is_paused"] = service.paused();
    respond(exchange, out);
  });
  for (const char* path :
       {"/init_communicator", "/update_named_param", "/update_flattened_params", "/update_adapter_flattened_param",
        "/update_adapter_param", "/init_weight_transfer_engine"}) {
    add("POST", path, [](const auto&, const auto& exchange) { openai::refuse(*exchange, no_transfer().error(), 501); });
  }
  add("POST", "/close_communicator",
      [](const auto&, const auto& exchange) { respond(exchange, message("Request received, closing communicator")); });
  // Packed copies are made as weights are written.
  add("POST", "/process_weights_after_loading",
      [](const auto&, const auto& exchange) { respond(exchange, message("Weights processed after loading")); });
}

}  // namespace tern::server::rollout
