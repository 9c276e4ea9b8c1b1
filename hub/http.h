// One HTTP or HTTPS GET, by libcurl. Redirects are followed (a token is not sent to another host), certificates are
// checked, and every failure is a kind that a caller can act on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tern::hub {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::uint64_t resume_from = 0;     // asks for the bytes from here on
  double connect_timeout = 15;       // seconds
  double stall_timeout = 30;         // seconds below one byte a second
  // Called once before the first byte of a body of status 200 or 206; false aborts.
  std::function<bool(long status)> begin;
  // Takes the next bytes of such a body; false aborts. Other bodies (errors) go to HttpReply::text.
  std::function<bool(std::span<const std::byte>)> sink;
};

struct HttpReply {
  long status = 0;                             // of the last response; 0 where none came
  bool aborted = false;                        // begin or sink said so
  std::string failure;                         // of the connection: "timed out"; empty where the exchange was whole
  std::map<std::string, std::string> headers;  // lower-case names; of several responses the first that has it
  std::string text;                            // body without a sink, or of an error; at most 64 MiB
};

[[nodiscard]] HttpReply http_get(const HttpRequest& request);

// Percent-encodes all but unreserved characters; `keep_slash` for paths (RFC 3986).
[[nodiscard]] std::string url_encode(std::string_view text, bool keep_slash);

}  // namespace tern::hub
