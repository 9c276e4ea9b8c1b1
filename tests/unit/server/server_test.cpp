// The server over a tiny model, from before there is one.
#include "server/server.h"

#include <gtest/gtest.h>

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
