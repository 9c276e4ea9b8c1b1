// tern web-ui as a browser meets it: the built program, over loopback, with runs of a tiny model.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "io/json.h"
#include "run.h"
#include "tests/support/http_client.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

using io::Json;
using std::chrono::milliseconds;
using test::ask;
using test::HttpReply;

class WebUi : public ::testing::Test {
 protected:
  WebUi() : port_(test::free_port()), rows_(scratch_.write("rows.jsonl", sums(16))) {
    write_tiny_model(scratch_.path() / "tiny");
    options_.folder = scratch_.path();
    options_.variables["TERN_HOME"] = (scratch_.path() / "home").string();
    options_.variables["TERN_CACHE_DIR"] = (scratch_.path() / "cache").string();
    options_.signal = SIGINT;
    options_.signal_when = [this] { return stop_.load(); };
  }
  // Runs go on without the server: those that a failed test left are ended first.
  ~WebUi() override {
    if (thread_.joinable() && !ended_) {
      const Json list = get("/runs");
      for (const Json& one : list["runs"]) {
        if (one["pid"].get<std::int64_t>() > 0) ::kill(static_cast<pid_t>(one["pid"].get<std::int64_t>()), SIGKILL);
      }
    }
    (void)end();
  }

  void serve() {
    stop_ = false;
    ended_ = false;
    thread_ = std::thread([this] {
      outcome_ = run({"web-ui", "--port", std::to_string(port_)}, options_);
      ended_ = true;
    });
    while (!ended_ && ask(port_, "GET", "/health").status != 200) std::this_thread::sleep_for(milliseconds(20));
  }
  const Outcome& end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }
  [[nodiscard]] HttpReply post(const std::string& path, const Json& body) const {
    return ask(port_, "POST", path, body.dump(), "Content-Type: application/json\r\n");
  }
  [[nodiscard]] Json get(const std::string& path) const {
    const HttpReply reply = ask(port_, "GET", path);
    EXPECT_EQ(reply.status, 200) << path << ": " << reply.body;
    return io::parse_json(reply.body, path).value();
  }
  [[nodiscard]] std::string start(const std::string& steps) const {
    Json flags = Json::object();
    flags["model"] = (scratch_.path() / "tiny").string();
    flags["dataset"] = Json(std::vector<std::string>{rows_});
    flags["torch_dtype"] = "float32";
    flags["max_steps"] = steps;
    flags["logging_steps"] = 1;
    flags["device"] = "cpu";
    Json body = Json::object();
    body["flags"] = std::move(flags);
    const HttpReply reply = post("/runs/start", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return io::parse_json(reply.body, "start").value()["id"].text();
  }
  void stop(const std::string& id) const {
    Json body = Json::object();
    body["run"] = id;
    EXPECT_EQ(post("/runs/stop", body).status, 200);
  }
  [[nodiscard]] Json run_of(const std::string& id) const {
    const Json list = get("/runs");
    for (const Json& one : list["runs"]) {
      if (one["id"] == id) return one;
    }
    return Json::object();
  }
  [[nodiscard]] bool becomes(const std::string& id, const std::string& state) const {
    for (int i = 0; i < 3000; ++i) {
      const Json found = run_of(id);
      const Json* now = found.find("state");
      if (now != nullptr && *now == state) return true;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return false;
  }
  // Reads on as the page does, until the log has so many rows.
  [[nodiscard]] std::vector<Json> follow(const std::string& id, std::size_t rows) const {
    std::vector<Json> found;
    std::string query;
    for (int i = 0; i < 3000 && found.size() < rows; ++i) {
      const Json part = get("/runs/log/" + id + query);
      for (const Json& row : part["rows"]) found.push_back(row);
      query = "?file=" + part["file"].dump() + "&offset=" + part["offset"].dump();
      std::this_thread::sleep_for(milliseconds(10));
    }
    return found;
  }

  Scratch scratch_;
  std::uint16_t port_;
  std::string rows_;
  Options options_;
  std::atomic<bool> stop_{false}, ended_{false};
  Outcome outcome_;
  std::thread thread_;
};

TEST_F(WebUi, StartsRunsFollowsTheirCurvesAndStopsOne) {
  serve();
  EXPECT_EQ(ask(port_, "GET", "/").body.find("<!doctype html>"), 0U);
  const std::string long_run = start("1000000");
  const std::vector<Json> begun = follow(long_run, 5);
  ASSERT_GE(begun.size(), 5U) << get("/runs/output/" + long_run)["text"].text();
  for (std::size_t i = 0; i < begun.size(); ++i) {  // each row once, in order
    EXPECT_EQ(begun[i]["global_step/max_steps"].text(), std::to_string(i + 1) + "/1000000");
    EXPECT_GT(begun[i]["loss"].get<double>(), 0);
  }
  EXPECT_EQ(run_of(long_run)["state"], "running");
  // Several at once.
  const std::string short_run = start("3");
  EXPECT_TRUE(becomes(short_run, "ended")) << run_of(short_run).dump();
  EXPECT_EQ(follow(short_run, 4).size(), 4U);  // three steps and the end
  EXPECT_EQ(run_of(short_run)["checkpoints"].dump(), R"(["checkpoint-3"])");
  EXPECT_EQ(run_of(long_run)["state"], "running");
  stop(long_run);
  EXPECT_TRUE(becomes(long_run, "stopped")) << run_of(long_run).dump();
  const Json stopped = run_of(long_run);
  ASSERT_EQ(stopped["checkpoints"].size(), 1U);  // it saved before it ended
  EXPECT_EQ(stopped["checkpoints"][0].text(), "checkpoint-" + stopped["step"].dump());
  EXPECT_NE(get("/runs/output/" + long_run)["text"].text().find("training was stopped"), std::string::npos);
  EXPECT_EQ(get("/runs/arguments/" + short_run)["max_steps"], 3);
  EXPECT_EQ(end().status, 0) << outcome_.err;
  EXPECT_EQ(outcome_.err.find("goes on"), std::string::npos) << outcome_.err;
}

TEST_F(WebUi, JudgesTheFormAsTheCommandLineDoes) {
  serve();
  const auto problem = [&](const std::string& flags) {
    const HttpReply reply = post("/runs/check", io::parse_json("{\"flags\": " + flags + "}", "flags").value());
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json found = io::parse_json(reply.body, "check").value();
    return found["problem"].is_null() ? found["command"].text() : found["problem"].text();
  };
  EXPECT_EQ(problem("{}"), "tern sft needs --model; see tern sft --help.");
  EXPECT_EQ(problem(R"({"model": "smollm2-135m"})"), "no --dataset is given; name a file or a hub id.");
  EXPECT_NE(problem(R"({"model": "m", "dataset": "d", "lora_rank": "many"})").find("--lora_rank is \"many\""),
            std::string::npos);
  EXPECT_NE(problem(R"({"model": "m", "dataset": "d", "tuner_type": "full", "lora_rank": 4})").find("--lora_rank"),
            std::string::npos);
  EXPECT_TRUE(problem(R"({"model": "m", "dataset": ["a b", "c"]})").ends_with("sft --model m --dataset 'a b' c"));
  const Json form = get("/runs/form");
  const std::string fields = form.dump();
  for (const char* field : {"model", "dataset", "learning_rate", "lora_rank", "quant_method", "max_length"}) {
    EXPECT_NE(fields.find("\"name\":\"" + std::string(field) + "\""), std::string::npos) << field;
  }
  // What says where a run writes, loads code or is a secret.
  for (const char* field : {"output_dir", "logging_dir", "external_plugins", "backend", "hub_token", "load_args"}) {
    EXPECT_EQ(fields.find("\"name\":\"" + std::string(field) + "\""), std::string::npos) << field;
  }
  EXPECT_EQ(get("/runs")["runs"].size(), 0U);
  // A model's name can't lead out of the folder of runs.
  const HttpReply up =
      post("/runs/start", io::parse_json(R"({"flags": {"model": "..", "dataset": "d"}})", "x").value());
  ASSERT_EQ(up.status, 200) << up.body;
  EXPECT_TRUE(becomes(io::parse_json(up.body, "x").value()["id"].text(), "failed"));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "output" / "model")) << up.body;
}

// Broken if Ctrl-C ended the runs with the page, or left them unsaid.
TEST_F(WebUi, RunsGoOnWithoutItAndItKnowsThemAgain) {
  serve();
  const std::string id = start("1000000");
  ASSERT_GE(follow(id, 2).size(), 2U);
  EXPECT_EQ(end().status, 0);
  EXPECT_NE(outcome_.err.find("the run " + id + " goes on; kill -INT "), std::string::npos) << outcome_.err;
  serve();
  const std::size_t before = follow(id, 1).size();
  EXPECT_GT(follow(id, before + 3).size(), before);
  EXPECT_EQ(run_of(id)["state"], "running");
  stop(id);
  EXPECT_TRUE(becomes(id, "stopped"));
}

TEST_F(WebUi, OtherMachinesNeedAKey) {
  for (const auto& name : {"--host", "--server_name"}) {
    const Outcome outcome = run({"web-ui", name, "0.0.0.0", "--port", std::to_string(port_)}, options_);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find("give --api_key KEY"), std::string::npos) << outcome.err;
  }
}

// Each request of docs/web-ui.md, in their order, with a tiny model in the place of the bundled one.
TEST_F(WebUi, ThePagesRequestsAreAnswered) {
  std::filesystem::copy(scratch_.path() / "tiny", scratch_.path() / "smollm2-135m");
  std::filesystem::create_directory_symlink(std::filesystem::path(TERN_SOURCE_DIR) / "examples",
                                            scratch_.path() / "examples");
  serve();
  std::ifstream page(std::string(TERN_SOURCE_DIR) + "/docs/web-ui.md");
  std::string script = "set -ex\n";
  int asked = 0;
  for (std::string line; std::getline(page, line);) {
    const bool asks = line.starts_with("curl ") || line.starts_with("RUN=");
    if (line.starts_with("sleep ")) line = "sleep 3";
    if (!asks && !line.starts_with("sleep ")) continue;
    if (asks)
      line.replace(line.find("localhost:7860"), 14, "localhost:" + std::to_string(port_))
          .insert(line.find("curl ") + 5, "--fail ");
    script += line + "\necho\n";
    asked += asks ? 1 : 0;
  }
  EXPECT_GE(asked, 9);
  const std::string log = (scratch_.path() / "log").string();
  EXPECT_EQ(std::system(("sh " + scratch_.write("page.sh", script) + " >" + log + " 2>&1").c_str()), 0)
      << scratch_.read("log");
  const Json list = get("/runs");
  ASSERT_EQ(list["runs"].size(), 1U);
  EXPECT_TRUE(becomes(list["runs"][0]["id"].text(), "stopped")) << run_of(list["runs"][0]["id"].text()).dump();
}

}  // namespace
}  // namespace tern::e2e
