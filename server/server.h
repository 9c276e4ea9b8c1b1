// A model behind HTTP: what `tern deploy` is words around.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/chat_service.h"
#include "server/http.h"
#include "server/router.h"

namespace tern::server {

struct ServerOptions {
  HttpOptions http;
  ServiceOptions service;
  std::string api_key;  // "": none is asked for
  std::string version;
};

class Server {
 public:
  // Serves `llm`, which outlives the server and which nobody else uses meanwhile. Errors: what HttpServer::listen and
  // ChatService say.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(engine::LLM& llm, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  // Refuses what comes, waits for the answers on their way, and stops. False where the deadline broke some off.
  [[nodiscard]] bool drain(std::chrono::milliseconds deadline);
  [[nodiscard]] const ChatService& service() const { return *service_; }

 private:
  Server() = default;
  std::unique_ptr<ChatService> service_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tern::server
