// Every protocol over one model.
#pragma once

#include <chrono>
#include <memory>

#include "server/chat_service.h"
#include "server/deadlines.h"
#include "server/router.h"

namespace tern::server {

struct ServerOptions {
  ServiceOptions service;
  std::string api_key;  // "": none is asked for
  std::string version;
  std::function<void(Router& router, ChatService& service)> more_routes;  // before those of every server
  std::chrono::milliseconds request_timeout{0};  // from a request's arrival to its answer's end; 0: none
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
  [[nodiscard]] const Router& router() const { return router_; }

 private:
  std::unique_ptr<Deadlines> deadlines_;  // outlives what may have one; null: no limit of time
  ChatService service_;
  Router router_;
};

}  // namespace tern::server
