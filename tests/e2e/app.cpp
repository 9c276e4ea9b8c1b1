// tern app: the chat page on a tiny model, or on a server elsewhere.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <regex>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class App : public ::testing::Test {
 protected:
  App() {
    write_tiny_model(scratch_.path() / "tiny");
    // A desktop's xdg-open, which writes down what it was to open.
    const std::string program =
        scratch_.write("bin/xdg-open", "#!/bin/sh\necho \"$1\" > " + (scratch_.path() / "opened.tmp").string() +
                                           "\nmv " + (scratch_.path() / "opened.tmp").string() + " " +
                                           (scratch_.path() / "opened").string() + "\n");
    ::chmod(program.c_str(), 0755);
    options_.variables["PATH"] = (scratch_.path() / "bin").string() + ":/usr/bin:/bin";
    options_.variables["TERN_HOME"] = (scratch_.path() / "home").string();
    options_.signal = SIGINT;
  }
  [[nodiscard]] bool opened() const { return std::filesystem::exists(scratch_.path() / "opened"); }
  [[nodiscard]] std::uint16_t port_opened() const {
    const std::string address = scratch_.read("opened");
    const std::regex pattern("^http://localhost:([0-9]+)/\n$");
    std::smatch found;
    EXPECT_TRUE(std::regex_match(address, found, pattern)) << address;
    return found.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(std::stoi(found[1]));
  }
  Scratch scratch_;
  Options options_;
};

// Broken if the page weren't opened, or a port that another program has ended the command.
TEST_F(App, OpensItsPageOnAFreePort) {
  // Somebody has the port that it would take: this test, or another program already.
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;  // though connections of a run before are still being forgotten
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  constexpr std::uint16_t kPort = 7860;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  (void)::listen(socket, 1);
  options_.variables["DISPLAY"] = ":0";
  std::string page;
  std::uint16_t port = 0;
  options_.signal_when = [&] {
    if (!opened()) return false;
    port = port_opened();
    page = ask(port, "GET", "/").body;
    return true;
  };
  const Outcome outcome = run({"app", "--model", (scratch_.path() / "tiny").string(), "--device", "cpu"}, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(page.find("<!doctype html>"), 0U) << outcome.err;
  EXPECT_NE(outcome.err.find("a chat page is at http://localhost:" + std::to_string(port) + "/"), std::string::npos)
      << outcome.err;
  EXPECT_NE(port, kPort);
  options_.signal_when = nullptr;
  const Outcome taken =
      run({"app", "--model", (scratch_.path() / "tiny").string(), "--device", "cpu", "--port", std::to_string(kPort)},
          options_);
  EXPECT_EQ(taken.status, 1) << taken.err;  // a port that was asked for is that one or none
  EXPECT_NE(taken.last_error_line().find("is taken"), std::string::npos) << taken.err;
  ::close(socket);
}

TEST_F(App, ChatsWithAServerElsewhere) {
  const Deployed elsewhere(scratch_.path() / "tiny", {"--api_key", "secret"});
  const std::string url = "http://127.0.0.1:" + std::to_string(elsewhere.port()) + "/v1";
  options_.variables["DISPLAY"] = ":0";
  HttpReply models, answer, foreign;
  options_.signal_when = [&] {
    if (!opened()) return false;
    const std::uint16_t port = port_opened();
    models = ask(port, "GET", "/v1/models");
    const std::string body = R"({"messages": [{"role": "user", "content": "1+2?"}], "max_tokens": 4, "stream": true})";
    answer = ask(port, "POST", "/v1/chat/completions", body, "Content-Type: application/json\r\n");
    foreign = ask(port, "POST", "/v1/chat/completions", body,
                  "Content-Type: application/json\r\nOrigin: http://evil.example\r\n");
    return true;
  };
  const Outcome outcome = run({"app", "--base_url", url, "--api_key", "secret"}, options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(models.status, 200) << models.body;
  EXPECT_EQ(json_of(models)["data"][0]["id"], "tiny");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
  EXPECT_EQ(foreign.status, 403);
}

TEST_F(App, OpensNothingWithoutADisplayAndRefusesWhatItWouldIgnore) {
  const std::uint16_t port = test::free_port();
  options_.signal_when = [&] { return ask(port, "GET", "/health").status == 200; };
  const std::string url = "http://127.0.0.1:1/v1";
  const Outcome quiet = run({"app", "--base_url", url, "--port", std::to_string(port)}, options_);
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_FALSE(opened());
  options_.signal_when = nullptr;
  const auto refused = [&](std::vector<std::string> words) {
    const Outcome outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.last_error_line();
  };
  EXPECT_NE(refused({"app", "--base_url", url, "--model", "tiny"}).find("--model has no effect with --base_url"),
            std::string::npos);
  EXPECT_NE(refused({"app", "--base_url", "localhost:8000"}).find("write it as http://HOST:PORT/v1"),
            std::string::npos);
  EXPECT_NE(refused({"app", "--base_url", url, "--api_key", "k", "--host", "0.0.0.0"}).find("--api_key would be lent"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::e2e
