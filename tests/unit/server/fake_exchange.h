// An exchange that keeps what a handler sends.
#pragma once

#include <functional>
#include <string>

#include "io/json.h"
#include "server/http.h"

namespace tern::server {

class FakeExchange : public HttpExchange {
 public:
  void respond(int code, std::string_view type, std::string text, Headers extra) override {
    status = code;
    content_type = type;
    body = std::move(text);
    headers = std::move(extra);
    complete = true;
  }
  void begin(int code, std::string_view type, Headers extra) override {
    status = code;
    content_type = type;
    headers = std::move(extra);
    streamed = true;
  }
  void send(std::string chunk) override { body += chunk; }
  void finish() override { complete = true; }
  void abandon() override { abandoned = true; }
  void on_gone(std::function<void()> fn) override { gone = std::move(fn); }

  [[nodiscard]] io::Json json() const { return io::parse_json(body, "answer").value(); }
  // The data of a stream's events; "[DONE]" as it is.
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = body.find("\n\n", at);
      const std::string event = body.substr(at, end - at);
      out.push_back(event.starts_with("data: ") ? event.substr(6) : event);
      at = end == std::string::npos ? body.size() : end + 2;
    }
    return out;
  }

  int status = 0;
  std::string content_type, body;
  Headers headers;
  bool streamed = false, complete = false, abandoned = false;
  std::function<void()> gone;
};

}  // namespace tern::server
