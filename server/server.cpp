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

Result<std::unique_ptr<Server>> Server::listen(const HttpOptions& options) {
  return catching([&] {
    std::unique_ptr<Server> server(new Server);
    const auto answer = [self = server.get()](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
      if (Router* router = self->serving_) {
        router->answer(std::move(request), std::move(exchange));
      } else {
        openai::refuse(*exchange, failed_error("the model is being loaded", "come again in a moment"), 503);
      }
    };
    server->http_ =
        HttpServer::listen(options, answer, [](int status, std::string_view message) {
          return std::pair<std::string, std::string>(openai::error_body(message, status), "application/json");
        }).value();
    return server;
  });
}

Status Server::serve(engine::LLM& llm, const ServerOptions& options) {
  return catching([&] {
    service_ = std::make_unique<ChatService>(llm, options.service);
    router_ = std::make_unique<Router>(options.api_key, service_->metrics());
    add_plain_routes(*router_, *service_, options.version);
    openai::add_routes(*router_, *service_);
    add_page_routes(*router_);
    anthropic::add_routes(*router_, *service_);
    responses::add_routes(*router_, *service_, std::make_shared<responses::ResponseStore>());
    ollama::add_routes(*router_, *service_, options.version);
    add_pooling_routes(*router_, *service_);
    serving_ = router_.get();
    return Unit{};
  });
}

// Connections end first, so that nobody asks any more; then the handlers that run, then the engine.
Server::~Server() {
  http_.reset();
  if (router_) router_->stop();
}

bool Server::drain(std::chrono::milliseconds deadline) {
  if (service_) service_->close();
  return http_->drain(deadline);
}

}  // namespace tern::server
