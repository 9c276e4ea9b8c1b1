// A model behind HTTP, until the user asks to stop: what `tern deploy` and `tern app` share.
#pragma once

#include <functional>
#include <string>

#include "cli/flags/arguments.h"
#include "server/http.h"

namespace tern::cli {

struct Deployment {
  bool takes_weights = false;  // a trainer's, while it serves, by the routes of server/rollout
  bool any_port = false;       // another free port where --port is taken
  std::function<void(const std::string& address)> serving;  // called once it serves, with the chat page's address
};

// Gives the exit status. Throws Failure.
[[nodiscard]] int serve_model(const Arguments& given, const Deployment& deployment);

// Server::listen and the like with --port, or with any free one where `any_port` says so and it can't be had.
template <typename Listen>
auto listen_on(server::HttpOptions options, bool any_port, Listen listen) {
  auto listened = listen(options);
  if (!listened && any_port) {
    options.port = 0;
    auto other = listen(options);
    if (other) return std::move(*other);
  }
  return std::move(listened).value();
}

// Of a server that listens: "https://localhost:8000/".
[[nodiscard]] std::string page_address(const server::HttpOptions& options, std::uint16_t port);

}  // namespace tern::cli
