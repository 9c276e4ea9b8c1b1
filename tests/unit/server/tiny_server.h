// The server over a tiny model, in the test's own process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/json.h"
#include "server/server.h"
#include "session/session.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::test {

class TinyServer {
 public:
  struct Options {
    server::HttpOptions http;
    server::ServerOptions server;
    engine::LLMOptions llm;
    std::int64_t max_positions = 100'000;  // that an answer can go on for long
    int labels = 0;                        // a classification with so many; 0: a language model
    std::string problem_type;              // of it
    std::string seeing;                    // another model, below tests/data/media/models, which sees images
    bool log = false;
  };
  TinyServer() : TinyServer(Options{}) {}
  explicit TinyServer(Options options) {
    setenv("TERN_HOME", (dir_ / "home").c_str(), 1);
    e2e::TinyModel model;
    model.max_positions = options.max_positions;
    model.verdicts = true;  // it can rerank
    model.labels = options.labels;
    e2e::write_tiny_model(dir_ / "model", model);
    session::SessionOptions opening;
    if (options.labels > 0) opening.label_head = models::LabelHead{options.labels, options.problem_type};
    if (options.labels > 0) opening.heads = models::Heads::any;
    opening.model = (dir_ / "model").string();
    if (!options.seeing.empty()) {
      opening.model = TERN_TEST_DATA "/media/models/" + options.seeing;
      opening.images = options.llm.images = true;
    }
    opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    opening.runtime.num_threads = 1;
    session_ = session::open_session(opening).value();
    constexpr std::uint64_t kCache = 32U << 20;
    if (!options.llm.engine.kv_cache_memory) options.llm.engine.kv_cache_memory = kCache;
    llm_ = engine::LLM::open(*session_, options.llm).value();
    options.http.host = "127.0.0.1";
    options.http.port = 0;
    if (options.log) log_ = server::AccessLog::open(log_file()).value();
    server_ = server::Server::listen(options.http, log_).value();
    if (options.server.service.model_names.empty()) options.server.service.model_names = {"tiny"};
    EXPECT_TRUE(server_->serve(*llm_, options.server).ok());
  }
  ~TinyServer() { unsetenv("TERN_HOME"); }
  TinyServer(const TinyServer&) = delete;
  TinyServer& operator=(const TinyServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] server::Server& server() { return *server_; }
  [[nodiscard]] const server::Server& server() const { return *server_; }
  [[nodiscard]] engine::EngineStats stats() const { return server_->routes().service().stats(); }
  [[nodiscard]] std::string log_file() const { return (dir_ / "access.jsonl").string(); }
  [[nodiscard]] HttpReply post(const std::string& path, const std::string& body,
                               const std::string& headers = "") const {
    return ask(port(), "POST", path, body, "Content-Type: application/json\r\n" + headers);
  }

  // Whether nobody is computed for any more and all blocks are free, within ten seconds.
  [[nodiscard]] bool becomes_idle() const {
    for (int i = 0; i < 1000; ++i) {
      const engine::EngineStats now = stats();
      if (now.running == 0 && now.waiting == 0 && now.cache_blocks_used == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  // The log's lines, of which there will be `count` within ten seconds.
  [[nodiscard]] std::vector<io::Json> lines(std::size_t count) const {
    std::vector<io::Json> out;
    for (int i = 0; i < 1000 && out.size() < count; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      out.clear();
      std::ifstream in(log_file());
      for (std::string line; std::getline(in, line);) out.push_back(io::parse_json(line, "line").value());
    }
    EXPECT_EQ(out.size(), count);
    out.resize(count);
    return out;
  }

 private:
  TempDir dir_;
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<engine::LLM> llm_;  // outlives the server
  std::shared_ptr<server::AccessLog> log_;
  std::unique_ptr<server::Server> server_;
};

}  // namespace tern::test
