#include "server/server.h"

#include "server/anthropic/routes.h"
#include "server/ollama/routes.h"
#include "server/openai/api_error.h"
#include "server/openai/routes.h"
#include "server/page_routes.h"
#include "server/plain_routes.h"
#include "server/pooling_routes.h"
#include "server/responses/routes.h"

namespace tern::server {

Result<std::unique_ptr<Server>> Server::start(engine::LLM& llm, const ServerOptions& options) {
  return catching([&] {
    std::unique_ptr<Server> server(new Server);
    server->service_ = std::make_unique<ChatService>(llm, options.service);
    server->router_ = std::make_unique<Router>(options.api_key, server->service_->metrics());
    Router& router = *server->router_;
    add_plain_routes(router, *server->service_, options.version);
    openai::add_routes(router, *server->service_);
    add_page_routes(router);
    anthropic::add_routes(router, *server->service_);
    responses::add_routes(router, *server->service_, std::make_shared<responses::ResponseStore>());
    ollama::add_routes(router, *server->service_, options.version);
    add_pooling_routes(router, *server->service_);
    server->http_ =
        HttpServer::listen(
            options.http,
            [&router](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
              router.answer(std::move(request), std::move(exchange));
            },
            [](int status, std::string_view message) {
              return std::pair<std::string, std::string>(openai::error_body(message, status), "application/json");
            })
            .value();
    return server;
  });
}

// Connections end first, so that nobody asks any more; then the handlers that run, then the engine.
Server::~Server() {
  http_.reset();
  if (router_) router_->stop();
}

bool Server::drain(std::chrono::milliseconds deadline) {
  service_->close();
  return http_->drain(deadline);
}

}  // namespace tern::server
