// An exchange that passes all on to another: who looks at answers on their way says what differs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/http.h"

namespace tern::server {

class PassingExchange : public HttpExchange {
 public:
  explicit PassingExchange(std::shared_ptr<HttpExchange> inner) : inner_(std::move(inner)) {}

  void respond(int status, std::string_view content_type, std::string body, Headers headers) override {
    inner_->respond(status, content_type, std::move(body), std::move(headers));
  }
  void begin(int status, std::string_view content_type, Headers headers) override {
    inner_->begin(status, content_type, std::move(headers));
  }
  void send(std::string chunk) override { inner_->send(std::move(chunk)); }
  void finish() override { inner_->finish(); }
  void abandon() override { inner_->abandon(); }
  void on_gone(std::function<void()> gone) override { inner_->on_gone(std::move(gone)); }

 private:
  const std::shared_ptr<HttpExchange> inner_;
};

}  // namespace tern::server
