// Requests about whole texts that wait at the same moment: one batch, each answered as alone, none lost.
#include "server/pooling_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/exposition.h"
#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using io::Json;
using namespace std::chrono_literals;

double metric(const TinyServer& server, const std::string& name) {
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  double sum = 0;
  for (std::size_t at = page.find("\n" + name); at != std::string::npos; at = page.find("\n" + name, at + 1)) {
    const char after = page[at + 1 + name.size()];
    if (after != '{' && after != ' ') continue;
    const std::size_t end = page.find('\n', at + 1);
    sum += std::strtod(page.c_str() + page.rfind(' ', end), nullptr);
  }
  return sum;
}

// Between two steps of the engine, for as long as the test likes.
class HeldEngine {
 public:
  explicit HeldEngine(TinyServer& server) {
    auto& service = const_cast<server::ChatService&>(server.server().routes().service());
    thread_ = std::thread([this, &service] {
      service.run([this](engine::LLM&) {
        std::unique_lock lock(mutex_);
        held_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return let_go_; });
      });
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  ~HeldEngine() { let_go(); }
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;
  void let_go() {
    {
      const std::scoped_lock lock(mutex_);
      let_go_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, let_go_ = false;
  std::thread thread_;
};

bool wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

std::string request(const std::string& path, const std::string& body) {
  return request_text("POST", path, body, "Content-Type: application/json\r\n");
}

// Different questions of many clients: each has its own answer, and what is wrong with one is no other's error.
TEST(PoolingQueue, AnswersAllAsIfEachWereAlone) {
  TinyServer server;
  const std::vector<std::pair<std::string, std::string>> asked = {
      {"/v1/embeddings", R"({"input": "one text"})"},
      {"/v1/embeddings", R"({"input": ["another", "and a third that is longer"]})"},
      {"/v1/embeddings", R"({"input": ["good", ""]})"},
      {"/pooling", R"({"input": "one text", "task": "token_embed"})"},
      {"/rerank", R"({"query": "q", "documents": ["a", "bcd"]})"},
      {"/score", R"({"text_1": "q", "text_2": ["a", "bcd"], "use_activation": false})"},
      {"/api/embed", R"({"model": "tiny", "input": ["one text"]})"},
      {"/classify", R"({"input": "good"})"},
      {"/v1/embeddings", R"({"input": "one text", "dimensions": 4, "encoding_format": "base64"})"},
      {"/v1/embeddings", R"({"input": "one text", "dimensions": 4000})"},
  };
  // Without what differs each time.
  const auto plain = [](const HttpReply& reply) {
    Json json = io::parse_json(reply.body, "answer").value();
    for (const char* key : {"id", "created", "total_duration"}) {
      if (json.contains(key)) json[key] = 0;
    }
    return std::to_string(reply.status) + json.dump();
  };
  std::vector<std::string> alone;
  for (const auto& [path, body] : asked) alone.push_back(plain(server.post(path, body)));
  EXPECT_EQ(alone[2].substr(0, 3), "400");
  EXPECT_EQ(alone[7].substr(0, 3), "400");
  EXPECT_EQ(alone[9].substr(0, 3), "400");
  for (int round = 0; round < 3; ++round) {
    HeldEngine held(server);
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (const auto& [path, body] : asked) {
      clients.push_back(std::make_unique<HttpClient>(server.port()));
      clients.back()->send(request(path, body));
    }
    EXPECT_TRUE(wait_until([&] { return server.stats().waiting == static_cast<std::int64_t>(asked.size()); }));
    held.let_go();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      EXPECT_EQ(plain(clients[i]->reply()), alone[i]) << asked[i].first << " " << asked[i].second;
    }
  }
  EXPECT_TRUE(server.becomes_idle());
}

// More than there are threads for routes wait without keeping any other request from its answer, up to the queue's end.
TEST(PoolingQueue, KeepsNobodyElseWaitingAndHasAnEnd) {
  TinyServer::Options options;
  options.server.service.max_queue_len = 12;
  TinyServer server(options);
  HeldEngine held(server);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->send(request("/v1/embeddings", R"({"input": "text"})"));
  }
  EXPECT_TRUE(wait_until([&] { return server.stats().waiting == 12; }));
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "Hi"})").status, 200);
  EXPECT_EQ(metric(server, "vllm:num_requests_waiting"), 12);
  const HttpReply refused = server.post("/v1/embeddings", R"({"input": "text"})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  // Whoever goes away is not computed for.
  clients[3]->reset();
  clients[4]->reset();
  EXPECT_TRUE(wait_until([&] { return server.server().connections() <= 10; }));
  held.let_go();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i != 3 && i != 4) {
      EXPECT_EQ(clients[i]->reply().status, 200);
    }
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_TRUE(wait_until([&] { return metric(server, "vllm:e2e_request_latency_seconds_count") == 12; }));
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_NE(page.find("finished_reason=\"abort\",model_name=\"tiny\"} 2\n"), std::string::npos);
  EXPECT_NE(page.find("finished_reason=\"stop\",model_name=\"tiny\"} 10\n"), std::string::npos);
}

// Who has the answer finds it counted.
TEST(PoolingQueue, IsCounted) {
  TinyServer::Options options;
  options.log = true;
  TinyServer server(options);
  const Json answer =
      io::parse_json(server.post("/v1/embeddings", R"({"input": ["one", "and two"]})").body, "answer").value();
  const auto tokens = answer["usage"]["prompt_tokens"].get<double>();
  const Json line = server.lines(1).front();
  EXPECT_EQ(metric(server, "vllm:prompt_tokens_total"), tokens);
  EXPECT_EQ(metric(server, "vllm:e2e_request_latency_seconds_count"), 1);
  EXPECT_EQ(metric(server, "vllm:request_queue_time_seconds_count"), 1);
  EXPECT_EQ(metric(server, "vllm:request_success_total"), 1);
  EXPECT_EQ(metric(server, "vllm:generation_tokens_total"), 0);
  EXPECT_EQ(server.post("/score", R"({"text_1": "", "text_2": "x", "model": "tiny"})").status, 200);
  EXPECT_EQ(server.post("/v1/embeddings", R"({"input": ""})").status, 400);
  EXPECT_EQ(metric(server, "vllm:request_success_total"), 3);
  EXPECT_EQ(line["prompt_tokens"].get<double>(), tokens);
  EXPECT_EQ(line["finish_reason"], "stop");
  EXPECT_EQ(line["model"], "tiny");
}

TEST(PoolingQueue, CountsInTheTimeOfARequest) {
  TinyServer::Options options;
  options.server.request_timeout = 300ms;
  TinyServer server(options);
  HeldEngine held(server);
  const HttpReply reply = server.post("/v1/embeddings", R"({"input": "text"})");
  EXPECT_EQ(reply.status, 504);
  EXPECT_NE(reply.body.find("--request_timeout"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace tern::test
