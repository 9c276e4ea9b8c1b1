// Keeps other sites' pages from a server on a user's machine: a browser sends their requests too.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "server/http.h"

namespace tern::server {

class RequestGuard {
 public:
  // `any_host`: whoever asks has a key, or the user allows anyone. Else only the names of this machine's own address
  // and `host` are answered, as another site's name may be made to lead here.
  RequestGuard(std::string host, bool any_host) : host_(std::move(host)), any_host_(any_host) {}

  // Why a request is refused (403); none: it isn't.
  [[nodiscard]] std::optional<Error> refusal(const HttpRequest& request) const;

 private:
  std::string host_;
  bool any_host_;
};

}  // namespace tern::server
