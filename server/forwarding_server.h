// The chat page and the dashboard over a server elsewhere: what a browser would ask it for is asked from here, as a
// page may ask its own server alone.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/router.h"
#include "server/runs/request_guard.h"
#include "server/work_queue.h"

namespace tern::server {

struct ForwardingOptions {
  HttpOptions http;
  std::string base_url;   // "http://host:8000/v1": an OpenAI-compatible server
  std::string api_key;    // sent there with requests that bring none; "": none
  bool any_host = false;  // answers under every name, not under this machine's alone
};

class ForwardingServer {
 public:
  // Errors: what HttpServer::listen says; usage for an address that is none.
  [[nodiscard]] static Result<std::unique_ptr<ForwardingServer>> listen(ForwardingOptions options);
  ~ForwardingServer();
  ForwardingServer(const ForwardingServer&) = delete;
  ForwardingServer& operator=(const ForwardingServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }

 private:
  explicit ForwardingServer(ForwardingOptions options);
  void forward(const std::string& method, const std::string& path, const std::string& there);

  ForwardingOptions options_;
  RequestGuard guard_;
  Metrics metrics_;
  Router router_;
  WorkQueue queue_;  // an answer may take minutes
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tern::server
