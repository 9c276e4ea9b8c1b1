#include "server/runs/web_ui_server.h"

#include <charconv>

#include "base/strings.h"
#include "io/json.h"
#include "server/error_forms.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"
#include "server/page_routes.h"

namespace tern::server {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

// "file=12&offset=34": 34 of "offset"; 0 where there is none.
std::uint64_t number_of(std::string_view query, std::string_view name) {
  std::uint64_t value = 0;
  for (const std::string_view part : split(query, '&')) {
    if (!part.starts_with(name) || part.size() <= name.size() || part[name.size()] != '=') continue;
    const std::string_view digits = part.substr(name.size() + 1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failure != std::errc{} || end != digits.data() + digits.size()) {
      throw Failure(data_error(cat("\"", name, "\" of the query"), "a number", cat("\"", digits, "\""), "begin at 0"));
    }
  }
  return value;
}

void reply(const Exchange& exchange, const Json& json) {
  exchange->respond(200, "application/json", json.dump(), {{"Cache-Control", "no-store"}});
}

}  // namespace

WebUiServer::WebUiServer(WebUiOptions options)
    : options_(std::move(options)),
      guard_(options_.http.host, options_.any_host),
      metrics_("web-ui"),
      router_(options_.api_key, metrics_),
      runs_(options_.output_dir) {
  add_reading_routes();
  add_starting_routes();
  add_run_page_routes(router_);
}

void WebUiServer::add_reading_routes() {
  router_.add(Route{.method = "GET",
                    .path = "/health",
                    .handler = [](const HttpRequest&, const std::string&,
                                  const Exchange& exchange) { reply(exchange, Json::object()); },
                    .open = true,
                    .quick = true});
  router_.add("GET", "/version", [this](const HttpRequest&, const std::string&, const Exchange& exchange) {
    Json out = Json::object();
    out["version"] = options_.version;
    reply(exchange, out);
  });
  router_.add("GET", "/runs", [this](const HttpRequest&, const std::string&, const Exchange& exchange) {
    reply(exchange, runs_.list());
  });
  router_.add("GET", "/runs/log/*",
              [this](const HttpRequest& request, const std::string& id, const Exchange& exchange) {
                reply(exchange, runs_.log(id, number_of(request.query, "file"), number_of(request.query, "offset")));
              });
  router_.add("GET", "/runs/output/*",
              [this](const HttpRequest& request, const std::string& id, const Exchange& exchange) {
                reply(exchange, runs_.output(id, number_of(request.query, "offset")));
              });
  router_.add("GET", "/runs/samples/*", [this](const HttpRequest&, const std::string& id, const Exchange& exchange) {
    reply(exchange, runs_.samples(id));
  });
  router_.add("GET", "/runs/arguments/*", [this](const HttpRequest&, const std::string& id, const Exchange& exchange) {
    exchange->respond(200, "application/json", runs_.arguments(id), {{"Cache-Control", "no-store"}});
  });
}

void WebUiServer::add_starting_routes() {
  router_.add("GET", "/runs/form", [this](const HttpRequest&, const std::string&, const Exchange& exchange) {
    reply(exchange, form_json(options_.form));
  });
  router_.add("POST", "/runs/check", [this](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    const FormValues values = form_values(options_.form, request.body);
    const auto command = catching([&] { return options_.form.command(values, false); });
    Json out = Json::object();
    out["command"] = command ? Json(command->shown) : Json();
    out["problem"] = command ? Json() : Json(command.error().line());
    reply(exchange, out);
  });
  router_.add("POST", "/runs/start", [this](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    const FormValues values = form_values(options_.form, request.body);
    const RunCommand command = options_.form.command(values, true);
    Json out = Json::object();
    out["id"] = runs_.start(command, values);
    out["command"] = command.shown;
    reply(exchange, out);
  });
  router_.add("POST", "/runs/stop", [this](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    JsonBody body(request.body);
    const std::string id = body.required_text("run");
    const bool at_once = body.boolean("at_once").value_or(false);
    body.finish();
    runs_.stop(id, at_once);
    reply(exchange, Json::object());
  });
}

Result<std::unique_ptr<WebUiServer>> WebUiServer::listen(WebUiOptions options) {
  return catching([&] {
    std::unique_ptr<WebUiServer> server(new WebUiServer(std::move(options)));
    const auto answer = [self = server.get()](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
      if (const auto refusal = self->guard_.refusal(request)) {
        openai::refuse(*exchange, *refusal, 403);
      } else {
        self->router_.answer(std::move(request), std::move(exchange));
      }
    };
    server->http_ = HttpServer::listen(server->options_.http, answer, http_error_body).value();
    return server;
  });
}

// Connections end first, so that nobody asks any more; then the handlers that run.
WebUiServer::~WebUiServer() {
  http_.reset();
  router_.stop();
}

}  // namespace tern::server
