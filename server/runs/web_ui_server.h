// The page of runs behind HTTP, without a model: what `tern web-ui` is words around.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/router.h"
#include "server/runs/request_guard.h"
#include "server/runs/run_form.h"
#include "server/runs/runs.h"

namespace tern::server {

struct WebUiOptions {
  HttpOptions http;
  std::string api_key;    // "": none is asked for
  bool any_host = false;  // answers under every name, as whoever asks has a key or may do without
  std::filesystem::path output_dir;
  std::string version;
  RunForm form;
};

class WebUiServer {
 public:
  // Errors: what HttpServer::listen says.
  [[nodiscard]] static Result<std::unique_ptr<WebUiServer>> listen(WebUiOptions options);
  ~WebUiServer();
  WebUiServer(const WebUiServer&) = delete;
  WebUiServer& operator=(const WebUiServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  // The runs that were started here and go on after it.
  [[nodiscard]] std::vector<Runs::GoingOn> going_on() { return runs_.going_on(); }

 private:
  explicit WebUiServer(WebUiOptions options);
  void add_reading_routes();
  void add_starting_routes();

  WebUiOptions options_;
  RequestGuard guard_;
  Metrics metrics_;
  Router router_;
  Runs runs_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tern::server
