#include "server/pool_routes.h"

#include "base/strings.h"
#include "io/json.h"
#include "server/chat_service.h"
#include "server/error_forms.h"
#include "server/ids.h"
#include "server/json_body.h"
#include "server/ollama/requests.h"
#include "server/openai/api_error.h"
#include "server/openapi/fragments.h"
#include "server/openapi/openapi.h"
#include "server/page_routes.h"

namespace tern::server {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

// What the request names; "": nothing. Throws Failure (data) for a body that is no JSON.
std::string named_model(const HttpRequest& request) {
  constexpr std::string_view kServe = "/v2/models/";
  if (request.path.starts_with(kServe)) {
    const std::string rest = request.path.substr(kServe.size());
    return rest.substr(0, rest.find('/'));
  }
  if (request.body.empty()) return {};
  const Json json = io::parse_json(request.body, "the request").value();
  if (!json.is_object()) return {};
  const Json* model = json.find("model");
  return model != nullptr && model->is_string() ? model->text() : std::string{};
}

Json model_json(const ModelPool::State& state, std::int64_t created) {
  Json out = Json::object();
  out["id"] = state.name;
  out["object"] = "model";
  out["created"] = created;
  out["owned_by"] = "tern";
  out["status"] = Json::object();
  out["status"]["value"] = state.value;
  return out;
}

std::string names_of(const ModelPool& pool) {
  std::vector<std::string> names;
  for (const auto& state : pool.states()) names.push_back(state.name);
  return join(names, " or ");
}

Refusal unknown(const ModelPool& pool, const std::string& name) {
  return {data_error("field \"model\"", names_of(pool), name.empty() ? "none" : name,
                     "ask for a model that /v1/models lists"),
          name.empty() ? 400 : 404};
}

std::string required_model(const ModelPool& pool, const HttpRequest& request) {
  JsonBody body(request.body);
  const std::string name = body.required_text("model");
  body.finish();
  if (!pool.knows(name)) throw Failure(unknown(pool, name).error);
  return name;
}

void respond(HttpExchange& exchange, const Json& json) { exchange.respond(200, "application/json", json.dump()); }

}  // namespace

PoolRoutes::PoolRoutes(ModelPool& pool, const PoolServerOptions& options)
    : pool_(pool), metrics_("server"), own_(options.api_key, metrics_) {
  const auto add = [&](const char* method, const char* path, bool open, RouteHandler handler) {
    own_.add(Route{.method = method, .path = path, .handler = std::move(handler), .open = open, .quick = true});
  };
  const auto says = [](const char* text) -> RouteHandler {
    return [text](const HttpRequest&, const std::string&, const Exchange& exchange) {
      exchange->respond(200, "application/json", text);
    };
  };
  const RouteHandler alive = says("{}");
  add("GET", "/health", true, alive);
  add("GET", "/ping", true, alive);
  add("POST", "/ping", true, alive);
  add("GET", "/v2/health/live", true, says(R"({"live":true})"));
  add("GET", "/v2/health/ready", true, says(R"({"ready":true})"));
  const auto version = [text = options.version](const HttpRequest&, const std::string&, const Exchange& exchange) {
    Json out = Json::object();
    out["version"] = text;
    respond(*exchange, out);
  };
  add("GET", "/version", false, version);
  add("GET", "/api/version", false, version);
  add("GET", "/metrics", false, [this](const HttpRequest&, const std::string&, const Exchange& exchange) {
    exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", pool_.metrics());
  });
  add_models(unix_time());
  add_openapi_route(own_, options.version, pool_openapi());
  add_page_routes(own_);
}

void PoolRoutes::add_models(std::int64_t created) {
  const RouteHandler list = [this, created](const HttpRequest&, const std::string&, const Exchange& exchange) {
    Json out = Json::object();
    out["object"] = "list";
    out["data"] = Json::array();
    for (const auto& state : pool_.states()) out["data"].push_back(model_json(state, created));
    respond(*exchange, out);
  };
  own_.add("GET", "/v1/models", list);
  own_.add("GET", "/models", list);
  own_.add("GET", "/v1/models/*",
           [this, created](const HttpRequest&, const std::string& name, const Exchange& exchange) {
             for (const auto& state : pool_.states()) {
               if (state.name == name) return respond(*exchange, model_json(state, created));
             }
             const Refusal refusal = unknown(pool_, name);
             openai::refuse(*exchange, refusal.error, refusal.status);
           });
  own_.add("GET", "/api/tags", [this](const HttpRequest&, const std::string&, const Exchange& exchange) {
    Json out = Json::object();
    out["models"] = Json::array();
    for (const auto& state : pool_.states()) {
      Json one = Json::object();
      one["name"] = state.name;
      one["model"] = state.name;
      out["models"].push_back(std::move(one));
    }
    respond(*exchange, out);
  });
  Json done = Json::object();
  done["success"] = true;
  own_.add("POST", "/models/load",
           [this, done](const HttpRequest& request, const std::string&, const Exchange& exchange) {
             pool_.load(required_model(pool_, request));
             respond(*exchange, done);
           });
  own_.add(
      "POST", "/models/unload", [this, done](const HttpRequest& request, const std::string&, const Exchange& exchange) {
        if (pool_.unload(required_model(pool_, request))) return respond(*exchange, done);
        openai::refuse(*exchange, failed_error("the model answers requests", "ask again when they have ended"), 409);
      });
}

void PoolRoutes::answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
  if (own_.knows(request.path)) {
    own_.answer(std::move(request), std::move(exchange));
  } else if (!own_.lets_in(request)) {  // before a model is read for it
    error_form(request.path)(*exchange,
                             failed_error("the key is missing or wrong", "send it as Authorization: Bearer KEY"), 401,
                             {{"WWW-Authenticate", "Bearer"}});
  } else {
    pass_on(std::move(request), std::move(exchange));
  }
}

void PoolRoutes::pass_on(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
  const auto named = catching([&] { return named_model(request); });
  if (!named) {
    error_form(request.path)(*exchange, named.error(), 400, {});
    return;
  }
  std::string name = *named;
  if (!pool_.knows(name)) name = ollama::served_name(name);
  const auto states = pool_.states();
  if (name.empty() && request.path.starts_with("/v1/responses/")) name = pool_.last_asked();
  if (name.empty() && states.size() == 1) name = states.front().name;
  if (!pool_.knows(name)) {
    const Refusal refusal = unknown(pool_, name);
    error_form(request.path)(*exchange, refusal.error, refusal.status, {});
    return;
  }
  const ErrorWriter errors = error_form(request.path);
  pool_.answer(name, std::move(request), std::move(exchange), errors);
}

}  // namespace tern::server
