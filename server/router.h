// Which function answers which route; keys, unknown routes and failures in one place.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/deadlines.h"
#include "server/error_forms.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/work_queue.h"

namespace tern::server {

// `rest` is what stood in the place of "*" at the end of a route's path.
using RouteHandler = std::function<void(const HttpRequest& request, const std::string& rest,
                                        const std::shared_ptr<HttpExchange>& exchange)>;

struct Route {
  std::string method;
  std::string path;  // "/v1/models", or "/v1/models/*" for one more part
  RouteHandler handler;
  bool open = false;   // needs no key
  bool quick = false;  // answered at once on the thread of HTTP; others wait for their turn on another
};

class Router {
 public:
  // `key` "": none is asked for. `metrics` outlives the router.
  Router(std::string key, Metrics& metrics);
  // A request that is not answered by then is refused with 504; those that compute for it end first (RequestRecord).
  void limit_time(Deadlines& deadlines, std::chrono::milliseconds time);

  void add(Route route) { routes_.push_back(std::move(route)); }
  void add(std::string method, std::string path, RouteHandler handler) {
    add(Route{std::move(method), std::move(path), std::move(handler)});
  }
  // Whether some route has this path.
  [[nodiscard]] bool knows(const std::string& path) const;
  // Whether the request has the key that is asked for.
  [[nodiscard]] bool lets_in(const HttpRequest& request) const { return key_.empty() || has_key(request); }
  // Of HttpServer: finds the route, checks the key, runs the handler. Any thread.
  void answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange);
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  // Waits for handlers that run, and drops those that wait.
  void stop() { queue_.stop(); }

 private:
  [[nodiscard]] bool has_key(const HttpRequest& request) const;
  void limit(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange, const ErrorWriter& errors);

  std::string key_;
  Deadlines* deadlines_ = nullptr;  // null: no limit
  std::chrono::milliseconds time_{};
  Metrics& metrics_;
  std::vector<Route> routes_;
  WorkQueue queue_;
};

}  // namespace tern::server
