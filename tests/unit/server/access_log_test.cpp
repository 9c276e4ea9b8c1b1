// What is told of requests, and their time limit, over the real server with a tiny model.
#include "server/access_log.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using namespace std::chrono_literals;
using io::Json;

TinyServer::Options logged() {
  TinyServer::Options options;
  options.log = true;
  options.server.api_key = "secret-key";
  return options;
}
const std::string kKey = "Authorization: Bearer secret-key\r\n";

struct Asked {
  std::string path, body;
};
// One request of each route that generates, with `fields` for ten tokens or many.
std::vector<Asked> generating(int tokens, bool stream) {
  const std::string flag = stream ? "true" : "false", count = std::to_string(tokens);
  const std::string messages = R"("messages": [{"role": "user", "content": "the prompt"}])";
  return {
      {"/v1/chat/completions",
       cat("{", messages, R"(, "ignore_eos": true, "max_tokens": )", count, R"(, "stream": )", flag, "}")},
      {"/v1/completions",
       cat(R"({"prompt": "the prompt", "ignore_eos": true, "max_tokens": )", count, R"(, "stream": )", flag, "}")},
      {"/v1/messages", cat("{", messages, R"(, "model": "tiny", "max_tokens": )", count, R"(, "stream": )", flag, "}")},
      {"/v1/responses", cat(R"({"input": "the prompt", "max_output_tokens": )", count, R"(, "stream": )", flag, "}")},
      {"/api/chat",
       cat("{", messages, R"(, "model": "tiny", "options": {"num_predict": )", count, R"(}, "stream": )", flag, "}")},
      {"/api/generate", cat(R"({"prompt": "the prompt", "model": "tiny", "options": {"num_predict": )", count,
                            R"(}, "stream": )", flag, "}")},
  };
}

TEST(AccessLog, TellsEachProtocolsRequests) {
  TinyServer server(logged());
  std::size_t count = 0;
  for (const bool stream : {false, true}) {
    for (const Asked& one : generating(10, stream)) {
      const HttpReply reply = server.post(one.path, one.body, kKey + "X-Request-Id: my-id\r\n");
      ASSERT_EQ(reply.status, 200) << one.path << reply.body;
      EXPECT_EQ(reply.header("x-request-id"), "my-id");
      const Json line = server.lines(++count).back();
      EXPECT_EQ(line["request_id"], "my-id");
      EXPECT_EQ(line["method"], "POST");
      EXPECT_EQ(line["path"], one.path);
      EXPECT_EQ(line["status"], 200);
      EXPECT_EQ(line["model"], "tiny");
      EXPECT_GT(line["prompt_tokens"].get<int>(), 5) << one.path;
      EXPECT_GT(line["completion_tokens"].get<int>(), 0) << one.path;
      EXPECT_LE(line["queue_time"].get<double>(), line["time_to_first_token"].get<double>());
      EXPECT_LE(line["time_to_first_token"].get<double>(), line["request_time"].get<double>());
      EXPECT_TRUE(line["finish_reason"] == "length" || line["finish_reason"] == "stop") << line.dump();
      EXPECT_TRUE(line["client"].text().starts_with("127.0.0.1:")) << line.dump();
      EXPECT_EQ(line["time"].text().size(), 24U) << line.dump();
    }
  }
  std::ostringstream all;
  all << std::ifstream(server.log_file()).rdbuf();
  EXPECT_EQ(all.str().find("secret"), std::string::npos);
  EXPECT_EQ(all.str().find("the prompt"), std::string::npos);
}

TEST(AccessLog, TellsThoseThatAreRefused) {
  TinyServer server(logged());
  EXPECT_EQ(server.post("/v1/completions", "{}", "Authorization: Bearer guess\r\n").status, 401);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "model": "other"})", kKey).status, 404);
  EXPECT_EQ(ask(server.port(), "GET", "/nowhere?key=secret-key").status, 404);
  const HttpReply made = ask(server.port(), "GET", "/health", "", "X-Request-Id: two words\r\n");
  EXPECT_TRUE(made.header("x-request-id").starts_with("req_")) << made.header("x-request-id");
  HttpClient broken(server.port());
  broken.send("GET /x y HTTP/9\r\n\r\n");
  EXPECT_EQ(broken.reply().status, 400);
  const auto lines = server.lines(5);
  const std::vector<int> statuses{401, 404, 404, 200, 400};
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(lines[i]["status"], statuses[i]);
    EXPECT_TRUE(lines[i]["completion_tokens"].is_null());
    EXPECT_TRUE(lines[i]["finish_reason"].is_null());
    EXPECT_EQ(lines[i].dump().find("secret"), std::string::npos);
  }
  EXPECT_EQ(lines[2]["path"], "/nowhere");
  EXPECT_EQ(lines[3]["request_id"], made.header("x-request-id"));
  EXPECT_TRUE(lines[4]["request_id"].is_null());
  EXPECT_TRUE(lines[4]["client"].text().starts_with("127.0.0.1:"));
}

TEST(AccessLog, PassesTheTraceOn) {
  TinyServer server(logged());
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const HttpReply given =
      ask(server.port(), "GET", "/health", "", "traceparent: " + parent + "\r\ntracestate: a=1\r\n");
  EXPECT_EQ(given.header("traceparent"), parent);
  EXPECT_EQ(given.header("tracestate"), "a=1");
  const HttpReply wrong = ask(server.port(), "GET", "/health", "", "traceparent: 00-0-0-0\r\ntracestate: a=1\r\n");
  EXPECT_EQ(wrong.header("traceparent"), "");
  EXPECT_EQ(wrong.header("tracestate"), "");
  const auto lines = server.lines(2);
  EXPECT_EQ(lines[0]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_TRUE(lines[1]["trace_id"].is_null());
}

TEST(AccessLog, TellsThatAClientWentAway) {
  TinyServer server(logged());
  for (const bool stream : {true, false}) {
    HttpClient client(server.port());
    client.send(request_text("POST", "/v1/completions", generating(90'000, stream)[1].body, kKey));
    if (stream) {
      ASSERT_TRUE(client.read_until("data: "));
    } else {
      while (server.stats().running == 0) std::this_thread::sleep_for(1ms);
    }
    client.reset();
    const Json line = server.lines(stream ? 1 : 2).back();
    EXPECT_EQ(line["status"], stream ? 200 : 499);
    EXPECT_EQ(line["finish_reason"], "abort");
    EXPECT_TRUE(server.becomes_idle());
  }
}

// As logrotate moves files away.
TEST(AccessLog, GoesOnInANewFile) {
  const TempDir dir;
  const std::filesystem::path file = dir / "log";
  const auto size_becomes = [](const std::filesystem::path& path, std::uintmax_t size) {
    std::error_code error;
    for (int i = 0; i < 1000 && std::filesystem::file_size(path, error) != size; ++i) std::this_thread::sleep_for(5ms);
    return std::filesystem::file_size(path, error) == size;
  };
  server::AccessEntry entry;
  entry.path = "/\xff\"\n";  // no UTF-8, and what would end a string or a line
  const auto line = server::access_line(entry);
  EXPECT_TRUE(io::parse_json(line, "line").ok()) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto log = server::AccessLog::open(file).value();
  log->write(entry);
  ASSERT_TRUE(size_becomes(file, line.size() + 1));
  std::filesystem::rename(file, dir / "log.1");
  log->write(entry);
  EXPECT_TRUE(size_becomes(file, line.size() + 1));
  EXPECT_FALSE(server::AccessLog::open(dir / "no folder" / "log").ok());
}

// Who comes while the only seat is taken waits until it's free, and the log and the metrics say how long.
TEST(AccessLog, TellsHowLongRequestsWaited) {
  TinyServer::Options options = logged();
  options.llm.engine.max_num_seqs = 1;
  options.max_positions = 2048;
  TinyServer server(options);
  HttpClient first(server.port());
  first.send(request_text("POST", "/v1/completions",
                          R"({"prompt": "a", "ignore_eos": true, "max_tokens": 1500, "stream": true})", kKey));
  ASSERT_TRUE(first.read_until("data: "));
  HttpClient second(server.port());
  const auto asked = std::chrono::steady_clock::now();
  second.send(request_text("POST", "/v1/completions", R"({"prompt": "b", "max_tokens": 1})", kKey));
  ASSERT_TRUE(first.read_until("[DONE]"));
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
  EXPECT_EQ(second.reply().status, 200);
  const auto lines = server.lines(2);
  EXPECT_LT(lines[0]["queue_time"].get<double>(), lines[0]["request_time"].get<double>() / 2);
  EXPECT_GT(lines[1]["queue_time"].get<double>(), waited / 2);
  const std::string page = ask(server.port(), "GET", "/metrics", "", kKey).body;
  for (const char* part : {"queue", "prefill", "decode", "inference"}) {
    const std::string name = cat("vllm:request_", part, "_time_seconds_");
    EXPECT_NE(page.find(cat(name, "count{engine=\"0\",model_name=\"tiny\"} 2")), std::string::npos) << name;
  }
  const std::size_t sum = page.find("vllm:request_queue_time_seconds_sum");
  ASSERT_NE(sum, std::string::npos);
  EXPECT_GT(std::stod(page.substr(page.find('}', sum) + 1)), waited / 2);
}

// A limit of time ends each protocol's request with its own error, and nothing of it is left in the engine.
TEST(RequestTimeout, EndsEachProtocolsRequests) {
  TinyServer::Options options = logged();
  options.server.request_timeout = 150ms;
  TinyServer server(options);
  std::size_t count = 0;
  for (const bool stream : {false, true}) {
    for (const Asked& one : generating(90'000, stream)) {
      const bool endless = one.body.find("ignore_eos") != std::string::npos;
      const HttpReply reply = server.post(one.path, one.body, kKey);
      const Json line = server.lines(++count).back();
      if (!endless && line["finish_reason"] == "stop") continue;  // a random model that said its last word in time
      EXPECT_EQ(reply.status, stream ? 200 : 504) << one.path << reply.body;
      EXPECT_TRUE(reply.whole) << one.path;
      EXPECT_NE(reply.body.find("--request_timeout"), std::string::npos) << one.path << reply.body;
      EXPECT_EQ(line["status"], reply.status);
      EXPECT_EQ(line["finish_reason"], "timeout");
      EXPECT_GE(line["request_time"].get<double>(), 0.15);
      EXPECT_TRUE(server.becomes_idle()) << one.path;
    }
  }
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})", kKey).status, 200);
}

// Also where it still waits for its turn, or is computed between two steps.
TEST(RequestTimeout, EndsThoseThatWait) {
  TinyServer::Options options;
  options.server.request_timeout = 300ms;
  options.llm.engine.max_num_seqs = 1;
  TinyServer server(options);
  const std::string endless = generating(90'000, false)[1].body;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] { EXPECT_EQ(server.post("/v1/completions", endless).status, 504); });
  }
  for (auto& client : clients) client.join();
  EXPECT_TRUE(server.becomes_idle());
  HttpReply embedded;
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_NE(page.find(R"(http_requests_total{handler="/v1/completions",status="504"} 3)"), std::string::npos) << page;
}

}  // namespace
}  // namespace tern::test
