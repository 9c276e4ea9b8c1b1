// A model that gives its memory back and reads it again while clients ask: every request is answered, whatever of the
// model its handler looks at. What handlers and the engine's thread would read and write at once, the thread sanitizer
// tells.
#include <atomic>
#include <thread>

#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

TEST(Sleeping, AModelThatSleepsAmongRequestsAnswersThemAll) {
  TinyServer::Options options;
  options.max_positions = 256;
  const TinyServer server(options);
  std::atomic<int> open = 0;
  std::vector<std::thread> clients;
  const auto ask_often = [&](const char* method, const char* path, const char* body) {
    ++open;
    clients.emplace_back([&server, &open, method, path, body] {
      for (int i = 0; i < 20; ++i) {
        const HttpReply reply = ask(server.port(), method, path, body, "Content-Type: application/json\r\n");
        EXPECT_EQ(reply.status, 200) << path << ": " << reply.body;
      }
      --open;
    });
  };
  ask_often("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2, "allowed_token_ids": [40, 41]})");
  ask_often("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2, "bad_words": ["b"]})");
  ask_often("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2, "use_beam_search": true, "n": 1})");
  ask_often("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 2})");
  ask_often("POST", "/v1/embeddings", R"({"input": ["a", "b"]})");
  ask_often("POST", "/tokenize", R"({"prompt": "a"})");
  ask_often("GET", "/v1/models", "");
  ask_often("GET", "/api/tags", "");
  ask_often("GET", "/v2/models/tiny", "");
  ask_often("GET", "/metrics", "");
  int slept = 0;
  while (open > 0 || slept == 0) {
    const int status = server.post("/sleep", "").status;
    EXPECT_TRUE(status == 200 || status == 409) << status;
    slept += status == 200 ? 1 : 0;
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
}

}  // namespace
}  // namespace tern::test
