// A model behind HTTP: what `tern deploy` is words around.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/chat_service.h"
#include "server/http.h"
#include "server/router.h"

namespace tern::server {

struct ServerOptions {
  ServiceOptions service;
  std::string api_key;  // "": none is asked for
  std::string version;
};

class Server {
 public:
  // Listens, and answers 503 until there is a model: an address that can't be had is known before one is loaded.
  // Errors: what HttpServer::listen says.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(const HttpOptions& options);
  // Serves `llm`, which outlives the server and which nobody else uses meanwhile; called once. Errors (device): no
  // memory for the engine.
  [[nodiscard]] Status serve(engine::LLM& llm, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::vector<std::string> model_names() const { return service_->all_names(); }  // that are served
  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  // Refuses what comes, waits for the answers on their way, and stops. False where the deadline broke some off.
  [[nodiscard]] bool drain(std::chrono::milliseconds deadline);

 private:
  Server() = default;
  std::unique_ptr<ChatService> service_;
  std::unique_ptr<Router> router_;
  std::atomic<Router*> serving_{nullptr};  // the router, once it is complete
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tern::server
