// A server of the test's own whose handler echoes, streams, fails, or leaves the exchange to the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "server/http.h"
#include "tests/support/http_client.h"

namespace tern::test {

using namespace std::chrono_literals;

struct Held {
  server::HttpRequest request;
  std::shared_ptr<server::HttpExchange> exchange;
};

class HttpFixture {
 public:
  explicit HttpFixture(server::HttpOptions options = {}) {
    options.host = options.host == "0.0.0.0" ? "127.0.0.1" : options.host;
    options.port = 0;
    auto listened = server::HttpServer::listen(
        options,
        [this](server::HttpRequest&& request, std::shared_ptr<server::HttpExchange> exchange) {
          handle(std::move(request), std::move(exchange));
        },
        [](int status, std::string_view message, std::string_view /*path*/) {
          return std::pair<std::string, std::string>(std::to_string(status) + "|" + std::string(message), "test/error");
        });
    EXPECT_TRUE(listened.ok()) << listened.error().line();
    server = std::move(*listened);
    port = server->port();
  }

  // The request to a path below /hold that came, or will come within ten seconds; once each.
  Held held(const std::string& path) {
    std::unique_lock lock(mutex);
    const bool came = changed.wait_for(lock, 10s, [&] { return holding.count(path) != 0; });
    EXPECT_TRUE(came) << path;
    if (!came) return {};
    auto entry = holding.extract(path);
    return std::move(entry.mapped());
  }

  bool connections_become(std::size_t count) const {
    for (int i = 0; i < 1000 && server->connections() != count; ++i) std::this_thread::sleep_for(10ms);
    return server->connections() == count;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Held> holding;
  std::unique_ptr<server::HttpServer> server;
  std::uint16_t port = 0;

 private:
  void handle(server::HttpRequest&& request, std::shared_ptr<server::HttpExchange> exchange) {
    if (request.path.rfind("/hold", 0) == 0) {
      const std::lock_guard lock(mutex);
      const std::string path = request.path;
      holding[path] = Held{std::move(request), std::move(exchange)};
      changed.notify_all();
    } else if (request.path == "/throw") {
      throw std::runtime_error("a fault of the handler");
    } else if (request.path == "/stream") {
      exchange->begin(200, "text/event-stream", {{"X-Test", "1"}, {"X-Bad", "a\r\nX-Injected: 1"}});
      for (const char* chunk : {"one,", "two,", "", "three"}) exchange->send(chunk);
      exchange->finish();
      exchange->send("never");
    } else if (request.path == "/empty") {
      exchange->respond(204, "", "");
    } else if (request.path != "/forget") {
      exchange->respond(200, "text/plain",
                        request.method + " " + request.path + "?" + request.query + "|" + request.body,
                        {{"X-Agent", std::string(request.header("user-agent"))}});
    }
  }
};

// Whether `gone` was called, within ten seconds.
class Flag {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [this] { return count_ > 0; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

}  // namespace tern::test
