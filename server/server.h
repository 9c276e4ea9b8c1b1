// A model behind HTTP: what `tern deploy` is words around.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/access_log.h"
#include "server/http.h"
#include "server/model_pool.h"
#include "server/model_routes.h"
#include "server/pool_routes.h"

namespace tern::server {

class Server {
 public:
  // Listens, and answers 503 until there is a model: an address that can't be had is known before one is loaded.
  // Errors: what HttpServer::listen says.
  // `log`, where there is one, tells of every request.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(const HttpOptions& options,
                                                              std::shared_ptr<AccessLog> log = nullptr);
  // Serves `llm`, which outlives the server and which nobody else uses meanwhile; called once. Errors (device): no
  // memory for the engine.
  [[nodiscard]] Status serve(engine::LLM& llm, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves several models, each opened when a request names it; called once, in the other's place.
  void serve(PoolOptions models, const PoolServerOptions& options);
  [[nodiscard]] std::vector<std::string> model_names() const;           // that are served
  [[nodiscard]] const ModelRoutes& routes() const { return *routes_; }  // of the one model that is served
  [[nodiscard]] std::size_t connections() const { return http_->connections(); }
  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  // Refuses what comes, waits for the answers on their way, and stops. False where the deadline broke some off.
  [[nodiscard]] bool drain(std::chrono::milliseconds deadline);

 private:
  Server() = default;
  std::shared_ptr<AccessLog> log_;
  std::unique_ptr<ModelRoutes> routes_;  // of one model; or
  std::unique_ptr<ModelPool> pool_;      // of several
  std::unique_ptr<PoolRoutes> pool_routes_;
  HttpHandler handler_;
  std::atomic<const HttpHandler*> serving_{nullptr};  // the handler, once it is complete
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tern::server
