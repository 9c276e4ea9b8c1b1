// Every protocol over one model.
#pragma once

#include <memory>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server {

struct ServerOptions {
  ServiceOptions service;
  std::string api_key;  // "": none is asked for
  std::string version;
  std::function<void(Router& router, ChatService& service)> more_routes;  // before those of every server
};

class ModelRoutes {
 public:
  // `llm` outlives it, and nobody else uses it meanwhile. Throws Failure (device): no memory for the engine.
  ModelRoutes(engine::LLM& llm, const ServerOptions& options);
  // Waits for handlers that run; nobody asks any more.
  ~ModelRoutes();
  ModelRoutes(const ModelRoutes&) = delete;
  ModelRoutes& operator=(const ModelRoutes&) = delete;

  [[nodiscard]] ChatService& service() { return service_; }
  [[nodiscard]] const ChatService& service() const { return service_; }
  [[nodiscard]] Router& router() { return router_; }

 private:
  ChatService service_;
  Router router_;
};

}  // namespace tern::server
