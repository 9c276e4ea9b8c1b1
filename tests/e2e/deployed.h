// `tern deploy`, or another command that serves, over loopback while a test asks it.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "io/json.h"
#include "run.h"
#include "tests/support/http_client.h"

namespace tern::e2e {

using io::Json;
using test::ask;
using test::HttpReply;

// The program, serving until the object goes.
class Deployed {
 public:
  // `command`: the first words.
  Deployed(const std::filesystem::path& model, std::vector<std::string> flags, const std::string& device = "cpu",
           const std::map<std::string, std::string>& variables = {}, std::vector<std::string> command = {"deploy"})
      : port_(test::free_port()) {
    std::vector<std::string> words = std::move(command);
    words.insert(words.end(), {"--host", "127.0.0.1", "--port", std::to_string(port_), "--device", device});
    if (!model.empty()) words.insert(words.end(), {"--model", model.string()});
    words.insert(words.end(), flags.begin(), flags.end());
    thread_ = std::thread([this, words, variables] {
      Options options;
      options.variables = variables;
      options.signal = SIGTERM;
      options.signal_when = [this] { return stop_.load(); };
      outcome_ = run(words, options);
      ended_ = true;
    });
    while (!ended_ && ask(port_, "GET", "/health").status != 200) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~Deployed() { (void)end(); }
  const Outcome& end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] HttpReply post(const std::string& path, const std::string& body,
                               const std::string& headers = "") const {
    return ask(port_, "POST", path, body, "Content-Type: application/json\r\n" + headers);
  }

 private:
  std::uint16_t port_;
  std::atomic<bool> stop_{false}, ended_{false};
  Outcome outcome_;
  std::thread thread_;
};

inline Json json_of(const HttpReply& reply) { return io::parse_json(reply.body, "answer").value(); }

// Of a streamed answer.
inline std::vector<Json> events_of(const HttpReply& reply) {
  std::vector<Json> out;
  for (std::size_t at = reply.body.find("data: "); at != std::string::npos; at = reply.body.find("data: ", at + 1)) {
    const std::string text = reply.body.substr(at + 6, reply.body.find("\n\n", at) - at - 6);
    if (text != "[DONE]") out.push_back(io::parse_json(text, "event").value());
  }
  return out;
}

}  // namespace tern::e2e
