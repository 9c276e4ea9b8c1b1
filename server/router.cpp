#include "server/router.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "server/error_forms.h"
#include "server/passing_exchange.h"
#include "server/request_record.h"

namespace tern::server {
namespace {

constexpr int kThreads = 4;

// What stands in the place of "*"; none where the path does not fit.
std::optional<std::string> matched(const std::string& route, const std::string& path) {
  if (route.empty() || route.back() != '*') return route == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view head(route.data(), route.size() - 1);
  if (!path.starts_with(head) || path.size() == head.size()) return std::nullopt;
  return path.substr(head.size());
}

// In a time that does not depend on where they differ.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Counts the answer's status, and passes all on.
class CountedExchange : public PassingExchange {
 public:
  CountedExchange(std::shared_ptr<HttpExchange> inner, std::string route, Metrics& metrics)
      : PassingExchange(std::move(inner)), route_(std::move(route)), metrics_(metrics) {}
  void respond(int status, std::string_view content_type, std::string body, Headers headers) override {
    metrics_.count_response(route_, status);
    PassingExchange::respond(status, content_type, std::move(body), std::move(headers));
  }
  void begin(int status, std::string_view content_type, Headers headers) override {
    metrics_.count_response(route_, status);
    PassingExchange::begin(status, content_type, std::move(headers));
  }

 private:
  std::string route_;
  Metrics& metrics_;
};

void run(const RouteHandler& handler, const HttpRequest& request, const std::string& rest,
         const std::shared_ptr<HttpExchange>& exchange, ErrorWriter errors) {
  try {
    handler(request, rest, exchange);
  } catch (const Failure& failure) {
    const bool theirs = failure.error().kind == ErrorKind::data || failure.error().kind == ErrorKind::usage;
    errors(*exchange, failure.error(), theirs ? 400 : 500, {});
  } catch (const std::exception& error) {
    log_warn(cat(request.method, " ", request.path, ": ", error.what()));
    errors(*exchange, failed_error("the request could not be answered", "look at the server's log"), 500, {});
  }
}

}  // namespace

Router::Router(std::string key, Metrics& metrics) : key_(std::move(key)), metrics_(metrics), queue_(kThreads) {}

bool Router::has_key(const HttpRequest& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = request.header("authorization");
  if (given.starts_with(kBearer) && same(given.substr(kBearer.size()), key_)) return true;
  return same(request.header("x-api-key"), key_);
}

bool Router::knows(const std::string& path) const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& route) { return matched(route.path, path).has_value(); });
}

void Router::limit_time(Deadlines& deadlines, std::chrono::milliseconds time) {
  deadlines_ = &deadlines;
  time_ = time;
}

void Router::limit(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange,
                   const ErrorWriter& errors) {
  if (deadlines_ == nullptr || request.record == nullptr) return;
  request.record->limit(*deadlines_, time_, [weak = std::weak_ptr(exchange), errors] {
    if (const auto still = weak.lock()) errors(*still, out_of_time(), 504, {});
  });
}

void Router::answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) {
  std::string allowed;
  const bool head = request.method == "HEAD";
  const ErrorWriter errors = error_form(request.path);
  for (const Route& route : routes_) {
    const auto rest = matched(route.path, request.path);
    if (!rest) continue;
    if (route.method != (head ? "GET" : request.method)) {
      allowed += cat(allowed.empty() ? "" : ", ", route.method);
      continue;
    }
    const auto counted = std::make_shared<CountedExchange>(std::move(exchange), route.path, metrics_);
    if (!route.open && !lets_in(request)) {
      errors(*counted, failed_error("the key is missing or wrong", "send it as Authorization: Bearer KEY"), 401,
             {{"WWW-Authenticate", "Bearer"}});
      return;
    }
    if (route.quick) {
      run(route.handler, request, *rest, counted, errors);
      return;
    }
    limit(request, counted, errors);
    queue_.push([&route, errors, counted, rest = *rest, kept = std::make_shared<HttpRequest>(std::move(request))] {
      run(route.handler, *kept, rest, counted, errors);
    });
    return;
  }
  CountedExchange counted(std::move(exchange), "none", metrics_);
  if (allowed.empty()) {
    errors(counted, failed_error(cat("there is no route ", request.path), "docs/deploy.md lists the routes"), 404, {});
    return;
  }
  errors(counted, failed_error(cat(request.path, " takes ", allowed, ", not ", request.method), "use that"), 405,
         {{"Allow", allowed}});
}

}  // namespace tern::server
