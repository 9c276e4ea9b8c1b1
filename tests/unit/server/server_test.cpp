// The server over a tiny model, from before there is one.
#include "server/server.h"

#include <gtest/gtest.h>

#include <functional>

#include "io/json.h"
#include "session/session.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::server {
namespace {

TEST(Server, AsksToComeAgainUntilThereIsAModel) {
  const test::TempDir dir;
  setenv("TERN_HOME", (dir / "home").c_str(), 1);
  e2e::write_tiny_model(dir / "model");
  HttpOptions http;
  http.host = "127.0.0.1";
  http.port = 0;
  session::SessionOptions opening;
  opening.model = (dir / "model").string();
  opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
  const auto session = session::open_session(opening).value();
  const auto llm = engine::LLM::open(*session).value();  // outlives the server
  const auto server = Server::listen(http).value();
  for (const char* path : {"/health", "/v1/models", "/"}) {
    const test::HttpReply early = test::ask(server->port(), "GET", path);
    EXPECT_EQ(early.status, 503) << path;
    EXPECT_EQ(early.header("retry-after"), "1");
  }
  ServerOptions options;
  options.service.model_names = {"m"};
  ASSERT_TRUE(server->serve(*llm, options).ok());
  EXPECT_EQ(test::ask(server->port(), "GET", "/health").status, 200);
  EXPECT_EQ(test::ask(server->port(), "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2})").status, 200);
  for (const char* prompt : {"\"\"", "[[]]", "[[], []]"}) {  // nothing, of which log-probabilities are asked for
    const std::string body = std::string("{\"prompt\": ") + prompt + ", \"prompt_logprobs\": 0}";
    EXPECT_EQ(test::ask(server->port(), "POST", "/v1/completions", body).status, 400) << body;
  }
  EXPECT_TRUE(server->drain(std::chrono::seconds(5)));
  unsetenv("TERN_HOME");
}

// What HTTP itself refuses comes in the form of the protocol that was asked, with or without a model.
TEST(Server, WritesErrorsOfHttpAsEachProtocolDoes) {
  HttpOptions http;
  http.host = "127.0.0.1";
  http.port = 0;
  http.max_body_bytes = 1000;
  http.max_header_bytes = 1000;
  http.receive_timeout = std::chrono::milliseconds(50);
  const auto server = Server::listen(http).value();
  const std::string large = "Content-Length: 1001\r\n\r\n";
  const std::string header = "X: " + std::string(2000, 'x') + "\r\n\r\n";
  const std::string bad = "Transfer-Encoding: gzip\r\n\r\n";
  const std::string slow = "Content-Length: 2\r\n\r\n";
  const std::string early = "Content-Length: 0\r\n\r\n";  // before there is a model
  const std::vector<std::pair<int, std::string>> faults = {
      {413, large}, {431, header}, {400, bad}, {408, slow}, {503, early}};
  struct Case {
    std::string path;
    std::function<std::string(const io::Json& body)> message;
  };
  const std::vector<Case> cases = {
      {"/v1/chat/completions", [](const io::Json& body) { return body["error"]["message"].text(); }},
      {"/v1/messages",
       [](const io::Json& body) { return body["type"] == "error" ? body["error"]["message"].text() : ""; }},
      {"/api/chat", [](const io::Json& body) { return body["error"].text(); }},
      {"/v2/models/m/infer", [](const io::Json& body) { return body["error"].text(); }}};
  for (const auto& [status, rest] : faults) {
    for (const Case& one : cases) {
      test::HttpClient client(server->port());
      client.send("POST " + one.path + " HTTP/1.1\r\nHost: a\r\n" + rest);
      const test::HttpReply reply = client.reply();
      EXPECT_EQ(reply.status, status) << one.path;
      const auto body = io::parse_json(reply.body, "body");
      ASSERT_TRUE(body.ok()) << reply.body;
      EXPECT_GT(one.message(*body).size(), 10U) << reply.body;
    }
  }
  test::HttpClient client(server->port());
  client.send("nonsense\r\n\r\n");
  const test::HttpReply reply = client.reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(io::parse_json(reply.body, "body").value()["error"]["message"].text().find("not valid HTTP"),
            std::string::npos);
}

TEST(Server, KnowsWithoutAModelThatAPortIsTaken) {
  HttpOptions http;
  http.host = "127.0.0.1";
  http.port = 0;
  const auto first = Server::listen(http).value();
  http.port = first->port();
  const auto second = Server::listen(http);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().line().find("is taken"), std::string::npos);
}

}  // namespace
}  // namespace tern::server
