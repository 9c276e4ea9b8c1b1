#include "server/forwarding_server.h"

#include <atomic>

#include "base/strings.h"
#include "hub/http_post.h"
#include "server/error_forms.h"
#include "server/openai/api_error.h"
#include "server/page_routes.h"
#include "server/sse.h"

namespace tern::server {
namespace {

constexpr int kThreads = 16;
constexpr double kLongestSilence = 600;  // seconds, before a first token too

std::string without_end(std::string url, std::string_view end) {
  while (url.ends_with('/')) url.pop_back();
  if (!end.empty() && url.ends_with(end)) url.resize(url.size() - end.size());
  return url;
}

// Passes on what came there, as it comes.
void ask_there(const hub::HttpRequest& asked, const std::string& method, const std::string& body,
               const std::shared_ptr<HttpExchange>& exchange) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->on_gone([gone] { *gone = true; });
  bool streaming = false;
  hub::HttpRequest request = asked;
  std::string whole;
  request.sink = [&](std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (method == "GET") {
      whole += text;
      return !*gone;
    }
    const bool json = text.starts_with('{');  // a request that asked for no stream
    if (!streaming) exchange->begin(200, json ? "application/json" : kEventStream, {{"Cache-Control", "no-store"}});
    streaming = true;
    exchange->send(std::string(text));
    return !*gone;
  };
  const hub::HttpReply reply = method == "GET" ? hub::http_get(request) : hub::http_post(request, body);
  const auto type = reply.headers.find("content-type");
  const std::string content_type = type == reply.headers.end() ? "application/json" : type->second;
  if (streaming) {
    reply.failure.empty() ? exchange->finish() : exchange->abandon();
  } else if (reply.status == 0) {
    const Error error = failed_error(cat("the server at ", asked.url, " can't be reached: ", reply.failure),
                                     "see whether it's running, and whether --base_url is its address");
    openai::refuse(*exchange, error, 502);
  } else {
    exchange->respond(static_cast<int>(reply.status), content_type, reply.status == 200 ? whole : reply.text);
  }
}

}  // namespace

ForwardingServer::ForwardingServer(ForwardingOptions options)
    : options_(std::move(options)),
      guard_(options_.http.host, options_.any_host),
      metrics_("app"),
      router_("", metrics_),
      queue_(kThreads) {
  const std::string base = without_end(options_.base_url, "");
  router_.add(Route{.method = "GET",
                    .path = "/health",
                    .handler =
                        [](const HttpRequest&, const std::string&, const std::shared_ptr<HttpExchange>& exchange) {
                          exchange->respond(200, "application/json", "{}");
                        },
                    .quick = true});
  forward("GET", "/v1/models", base + "/models");
  forward("POST", "/v1/chat/completions", base + "/chat/completions");
  forward("GET", "/metrics", without_end(base, "/v1") + "/metrics");
  add_page_routes(router_);
}

void ForwardingServer::forward(const std::string& method, const std::string& path, const std::string& there) {
  router_.add(Route{.method = method,
                    .path = path,
                    .handler =
                        [this, method, there](const HttpRequest& request, const std::string&,
                                              const std::shared_ptr<HttpExchange>& exchange) {
                          hub::HttpRequest asked;
                          asked.url = there;
                          asked.stall_timeout = kLongestSilence;
                          const std::string_view key = request.header("authorization");
                          if (!key.empty()) {
                            asked.headers.push_back(cat("Authorization: ", key));
                          } else if (!options_.api_key.empty()) {
                            asked.headers.push_back(cat("Authorization: Bearer ", options_.api_key));
                          }
                          if (method == "POST") asked.headers.emplace_back("Content-Type: application/json");
                          queue_.push([asked, method, body = request.body, exchange] {
                            ask_there(asked, method, body, exchange);
                          });
                        },
                    .quick = true});
}

Result<std::unique_ptr<ForwardingServer>> ForwardingServer::listen(ForwardingOptions options) {
  return catching([&] {
    if (!options.base_url.starts_with("http://") && !options.base_url.starts_with("https://")) {
      throw Failure(usage_error(cat("--base_url ", options.base_url, " is no address of a server"),
                                "write it as http://HOST:PORT/v1"));
    }
    std::unique_ptr<ForwardingServer> server(new ForwardingServer(std::move(options)));
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

// Connections end first: so those who ask are gone, and what is asked there ends.
ForwardingServer::~ForwardingServer() {
  http_.reset();
  router_.stop();
  queue_.stop();
}

}  // namespace tern::server
