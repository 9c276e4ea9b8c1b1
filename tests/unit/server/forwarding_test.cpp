// The chat page over a server elsewhere: what it passes on.
#include "server/forwarding_server.h"

#include <gtest/gtest.h>

#include <mutex>

#include "base/strings.h"
#include "tests/support/http_client.h"

namespace tern::server {
namespace {

using test::ask;
using test::HttpReply;

// A server elsewhere that says what it was asked.
class Forwarding : public ::testing::Test {
 protected:
  Forwarding() {
    HttpOptions options;
    options.host = "127.0.0.1";
    options.port = 0;
    there_ = HttpServer::listen(
                 options,
                 [this](HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) { answer(request, exchange); },
                 [](int, std::string_view message, std::string_view) {
                   return std::pair<std::string, std::string>(message, "text/plain");
                 })
                 .value();
  }
  void answer(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
    const std::lock_guard lock(mutex_);
    if (request.body == "busy") {
      exchange->respond(429, "application/json", R"({"error": {"message": "queue full"}})");
    } else if (request.method == "POST") {
      exchange->begin(200, "text/event-stream");
      exchange->send("data: one\n\n");
      if (request.body == "wait") {
        exchange->on_gone([this] {
          const std::lock_guard inner(gone_mutex_);
          gone_ = true;
        });
        kept_ = exchange;
        return;
      }
      exchange->send(cat("data: ", request.body, "\n\n"));
      exchange->finish();
    } else {
      exchange->respond(200, "text/plain", cat(request.path, "|", request.header("authorization")));
    }
  }
  std::unique_ptr<ForwardingServer> listen(const std::string& key = "") {
    ForwardingOptions options;
    options.http.host = "127.0.0.1";
    options.http.port = 0;
    options.base_url = cat("http://127.0.0.1:", there_->port(), "/v1/");
    options.api_key = key;
    return ForwardingServer::listen(std::move(options)).value();
  }
  static HttpReply post(const ForwardingServer& server, const std::string& body) {
    return ask(server.port(), "POST", "/v1/chat/completions", body, "Content-Type: application/json\r\n");
  }
  bool gone() {
    const std::lock_guard lock(gone_mutex_);
    return gone_;
  }
  std::mutex mutex_, gone_mutex_;
  bool gone_ = false;
  std::shared_ptr<HttpExchange> kept_;
  std::unique_ptr<HttpServer> there_;
};

TEST_F(Forwarding, PassesOnWhatThePagesAskFor) {
  const auto server = listen();
  EXPECT_EQ(ask(server->port(), "GET", "/v1/models").body, "/v1/models|");
  EXPECT_EQ(ask(server->port(), "GET", "/metrics").body, "/metrics|");
  EXPECT_EQ(post(*server, "{}").body, "data: one\n\ndata: {}\n\n");
  EXPECT_NE(ask(server->port(), "GET", "/").body.find("chat.js"), std::string::npos);
  EXPECT_NE(ask(server->port(), "GET", "/dashboard").body.find("dashboard.js"), std::string::npos);
  EXPECT_EQ(ask(server->port(), "GET", "/v1/other").status, 404);
  const HttpReply busy = post(*server, "busy");
  EXPECT_EQ(busy.status, 429);
  EXPECT_NE(busy.body.find("queue full"), std::string::npos);
}

// Broken if the key went out with the requests of another site's page, or a user's own were replaced.
TEST_F(Forwarding, SendsItsKeyForItsOwnPageAlone) {
  const auto server = listen("secret");
  EXPECT_EQ(ask(server->port(), "GET", "/v1/models").body, "/v1/models|Bearer secret");
  EXPECT_EQ(ask(server->port(), "GET", "/v1/models", "", "Authorization: Bearer mine\r\n").body,
            "/v1/models|Bearer mine");
  EXPECT_EQ(ask(server->port(), "POST", "/v1/chat/completions", "{}",
                "Content-Type: application/json\r\nOrigin: http://evil.example\r\n")
                .status,
            403);
  test::HttpClient client(server->port());
  client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.reply().status, 403);
}

TEST_F(Forwarding, AnAnswerEndsWithItsReader) {
  const auto server = listen();
  {
    test::HttpClient client(server->port());
    client.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 4\r\n\r\nwait");
    EXPECT_TRUE(client.read_until("data: one"));
  }
  for (int i = 0; i < 1000 && !gone(); ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (kept_) kept_->send("data: more\n\n");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone());
}

TEST_F(Forwarding, SaysThatNobodyIsThere) {
  const auto server = listen();
  there_.reset();
  const HttpReply reply = ask(server->port(), "GET", "/v1/models");
  EXPECT_EQ(reply.status, 502);
  EXPECT_NE(reply.body.find("can't be reached"), std::string::npos);
  ForwardingOptions options;
  options.base_url = "localhost:8000";
  EXPECT_FALSE(ForwardingServer::listen(options).ok());
}

}  // namespace
}  // namespace tern::server
