// The server of runs over loopback: who may ask, and what the form takes.
#include "server/runs/web_ui_server.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace tern::server {
namespace {

using io::Json;
using test::ask;
using test::HttpReply;

class WebUi : public ::testing::Test {
 protected:
  std::unique_ptr<WebUiServer> listen(const std::string& key = "", bool any_host = false) {
    WebUiOptions options;
    options.http.host = "127.0.0.1";
    options.http.port = 0;
    options.api_key = key;
    options.any_host = any_host;
    options.output_dir = dir_.path();
    options.version = "1.2.3";
    options.form.groups = {
        {"First", {{"model", "text", "", "", "a model", {}}, {"dataset", "list", "", "", "data", {}}}}};
    options.form.command = [this](const FormValues& values, bool make) {
      RunCommand out;
      for (const auto& [name, words] : values) {
        if (name == "model" && words[0] == "bad") throw Failure(usage_error("--model is bad", "name another"));
        out.shown += cat("--", name, " ", join(words, " "), " ");
      }
      if (make) std::filesystem::create_directories(dir_ / "m/v0");
      out.directory = dir_ / "m/v0";
      out.words = {"/bin/sh", "-c", "echo started"};
      return out;
    };
    return WebUiServer::listen(std::move(options)).value();
  }
  static HttpReply post(const WebUiServer& server, const std::string& path, const std::string& body,
                        const std::string& headers = "") {
    return ask(server.port(), "POST", path, body, "Content-Type: application/json\r\n" + headers);
  }
  static Json json(const HttpReply& reply) { return io::parse_json(reply.body, "answer").value(); }
  test::TempDir dir_;
};

TEST_F(WebUi, ShowsItsPageAndNoChat) {
  const auto server = listen();
  EXPECT_NE(ask(server->port(), "GET", "/").body.find("web-ui.js"), std::string::npos);
  EXPECT_EQ(ask(server->port(), "GET", "/pages/web-ui.js").status, 200);
  EXPECT_EQ(ask(server->port(), "GET", "/dashboard").status, 404);
  EXPECT_EQ(ask(server->port(), "GET", "/v1/models").status, 404);
  EXPECT_EQ(ask(server->port(), "GET", "/health").status, 200);
  EXPECT_EQ(json(ask(server->port(), "GET", "/version"))["version"], "1.2.3");
}

// Broken if a page of another site could read or start runs: through a name that leads here, or by a request that a
// browser sends without asking.
TEST_F(WebUi, RefusesOtherSites) {
  const auto server = listen();
  const auto with = [&](const std::string& method, const std::string& headers) {
    test::HttpClient client(server->port());
    client.send(method + (method == "GET" ? " /runs" : " /runs/check") + " HTTP/1.1\r\n" + headers +
                "Content-Length: " + (method == "GET" ? "0\r\n\r\n" : "13\r\n\r\n{\"flags\": {}}"));
    return client.reply().status;
  };
  const std::string json_type = "Content-Type: application/json\r\n";
  for (const char* host : {"localhost", "localhost:7860", "127.0.0.1:1", "[::1]:7860"}) {
    EXPECT_EQ(with("GET", cat("Host: ", host, "\r\n")), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7860", "[::2]", ""}) {
    EXPECT_EQ(with("GET", cat("Host: ", host, "\r\n")), 403) << host;
  }
  EXPECT_EQ(with("POST", "Host: localhost:1\r\n" + json_type), 200);
  EXPECT_EQ(
      with("POST", "Host: localhost:1\r\nOrigin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n" + json_type),
      200);
  for (const char* headers : {"Origin: http://evil.example\r\n", "Origin: http://localhost:2\r\n", "Origin: null\r\n",
                              "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n"}) {
    EXPECT_EQ(with("POST", cat("Host: localhost:1\r\n", headers, json_type)), 403) << headers;
  }
  EXPECT_EQ(with("POST", "Host: localhost:1\r\nContent-Type: text/plain\r\n"), 403);
  EXPECT_EQ(with("POST", "Host: localhost:1\r\n"), 403);
}

TEST_F(WebUi, AKeyOpensItUnderAnyName) {
  const auto server = listen("secret", true);
  EXPECT_EQ(ask(server->port(), "GET", "/").status, 200);  // the page, which asks for the key
  for (const char* path :
       {"/runs", "/runs/form", "/runs/log/a", "/runs/output/a", "/runs/samples/a", "/runs/arguments/a"}) {
    EXPECT_EQ(ask(server->port(), "GET", path).status, 401) << path;
  }
  for (const char* path : {"/runs/check", "/runs/start", "/runs/stop"}) {
    EXPECT_EQ(post(*server, path, "{}").status, 401) << path;
  }
  test::HttpClient client(server->port());
  client.send("GET /runs HTTP/1.1\r\nHost: gpu.example\r\nAuthorization: Bearer secret\r\n\r\n");
  EXPECT_EQ(client.reply().status, 200);
}

TEST_F(WebUi, TakesTheFormAsDataAndNothingElse) {
  const auto server = listen();
  const Json form = json(ask(server->port(), "GET", "/runs/form"));
  EXPECT_EQ(form["groups"][0]["fields"][1]["name"], "dataset");
  EXPECT_EQ(form["groups"][0]["fields"][1]["type"], "list");
  const HttpReply good = post(*server, "/runs/check", R"({"flags": {"model": "a", "dataset": ["b", 3, true]}})");
  EXPECT_EQ(json(good)["command"], "--model a --dataset b 3 true ");
  const HttpReply bad = post(*server, "/runs/check", R"({"flags": {"model": "bad"}})");
  EXPECT_EQ(json(bad)["problem"], "--model is bad; name another.");
  EXPECT_EQ(post(*server, "/runs/start", R"({"flags": {"model": "bad"}})").status, 400);
  for (const char* body :
       {R"({"flags": {"output_dir": "/etc"}})", R"({"flags": {"dataset": ["a", "--output_dir", "/etc"]}})",
        R"({"flags": {"model": null}})", R"({"flags": {"model": {"a": 1}}})", R"({"flags": []})", R"({})",
        R"({"flags": {}, "more": 1})", "no JSON"}) {
    EXPECT_EQ(post(*server, "/runs/start", body).status, 400) << body;
  }
  EXPECT_EQ(json(ask(server->port(), "GET", "/runs"))["runs"].size(), 0U);
}

TEST_F(WebUi, StartsAndFollowsARun) {
  const auto server = listen();
  const Json started = json(post(*server, "/runs/start", R"({"flags": {"model": "a"}})"));
  EXPECT_EQ(started["id"], "m/v0");
  std::string text;
  for (int i = 0; i < 1000 && text.empty(); ++i) {
    text = json(ask(server->port(), "GET", "/runs/output/m/v0"))["text"].text();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(text, "started\n");
  dir_.write("m/v0/logging.jsonl", "{\"loss\":1}\n{\"loss\":2}\nnone\n{\"lo");
  const Json log = json(ask(server->port(), "GET", "/runs/log/m/v0"));
  EXPECT_EQ(log["rows"].size(), 2U);
  const std::string on = cat("?file=", log["file"].dump(), "&offset=", log["offset"].dump());
  EXPECT_EQ(json(ask(server->port(), "GET", "/runs/log/m/v0" + on))["rows"].size(), 0U);
  EXPECT_EQ(json(ask(server->port(), "GET", "/runs/arguments/m/v0"))["model"], "a");
  EXPECT_EQ(ask(server->port(), "GET", "/runs/log/m/v0?offset=-1").status, 400);
  EXPECT_EQ(ask(server->port(), "GET", "/runs/log/m/v1").status, 400);
  EXPECT_EQ(ask(server->port(), "GET", "/runs/log/..%2F..%2Fetc").status, 400);
  EXPECT_EQ(post(*server, "/runs/stop", R"({"run": "m/v1"})").status, 400);
  EXPECT_EQ(post(*server, "/runs/stop", R"({"run": "m/v0", "signal": 9})").status, 400);
}

}  // namespace
}  // namespace tern::server
