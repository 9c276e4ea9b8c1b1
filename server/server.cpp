#include "server/server.h"

#include "server/error_forms.h"
#include "server/request_record.h"

namespace tern::server {

namespace {

void log_fault(AccessLog& log, int status, std::string_view peer) {
  AccessEntry entry;
  entry.time = std::chrono::system_clock::now();
  entry.client = peer;
  entry.status = status;
  log.write(entry);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const HttpOptions& options, std::shared_ptr<AccessLog> log) {
  return catching([&] {
    std::unique_ptr<Server> server(new Server);
    server->log_ = std::move(log);
    const auto answer = [self = server.get()](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
      request.record = std::make_shared<RequestRecord>(request, self->log_);
      exchange = recorded(std::move(exchange), request.record);
      if (const HttpHandler* handler = self->serving_) {
        (*handler)(std::move(request), std::move(exchange));
      } else {
        error_form(request.path)(*exchange, failed_error("the model is being loaded", "come again in a moment"), 503,
                                 {});
      }
    };
    server->http_ =
        HttpServer::listen(options, answer, http_error_body, [self = server.get()](int status, std::string_view peer) {
          if (self->log_) log_fault(*self->log_, status, peer);
        }).value();
    return server;
  });
}

Status Server::serve(engine::LLM& llm, const ServerOptions& options) {
  return catching([&] {
    routes_ = std::make_unique<ModelRoutes>(llm, options);
    handler_ = [this](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
      routes_->router().answer(std::move(request), std::move(exchange));
    };
    serving_ = &handler_;
    return Unit{};
  });
}

void Server::serve(PoolOptions models, const PoolServerOptions& options) {
  pool_ = std::make_unique<ModelPool>(std::move(models));
  pool_routes_ = std::make_unique<PoolRoutes>(*pool_, options);
  handler_ = [this](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
    pool_routes_->answer(std::move(request), std::move(exchange));
  };
  serving_ = &handler_;
}

std::vector<std::string> Server::model_names() const {
  if (routes_) return routes_->service().all_names();
  std::vector<std::string> names;
  for (auto& state : pool_->states()) names.push_back(std::move(state.name));
  return names;
}

// Connections end first, so that nobody asks any more; then the handlers that run, then the engines.
Server::~Server() {
  http_.reset();
  if (pool_routes_) pool_routes_->stop();
}

bool Server::drain(std::chrono::milliseconds deadline) {
  if (routes_) routes_->service().close();
  if (pool_) pool_->close();
  return http_->drain(deadline);
}

}  // namespace tern::server
