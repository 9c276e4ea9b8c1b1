// One HTTP or HTTPS GET, by libcurl. Redirects are followed (a token is not sent to another host), certificates are
// checked, and every failure is a kind that a caller can act on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::hub {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;              // "Name: value"
  std::uint64_t resume_from = 0;                 // asks for the bytes from here on
  double connect_timeout = 15;                   // seconds
  double stall_timeout = 30;                     // seconds below one byte a second
  double timeout = 0;                            // seconds of the whole exchange; 0: as long as bytes come
  std::size_t max_text = std::size_t{64} << 20;  // bytes of HttpReply::text; more end the exchange
  bool follow_redirects = true;                  // false: HttpReply::location says where the answer leads
  bool through_proxy = true;  // the one that the environment names, if any; false: the host itself is asked
  // Asked of each numeric address ("127.0.0.1", "::1") as the connection to it is opened, so that what a name resolves
  // to can't change between the question and the connection. False: no connection.
  std::function<bool(std::string_view address)> may_connect;
  std::function<bool()> stopped;  // asked every second at least; true aborts
  // Called once before the first byte of a body of status 200 or 206; false aborts.
  std::function<bool(long status)> begin;
  // Takes the next bytes of such a body; false aborts. Other bodies (errors) go to HttpReply::text.
  std::function<bool(std::span<const std::byte>)> sink;
};

struct HttpReply {
  long status = 0;                             // of the last response; 0 where none came
  bool aborted = false;                        // begin, sink or stopped said so
  bool refused = false;                        // an address was: may_connect said so
  std::string failure;                         // of the connection: "timed out"; empty where the exchange was whole
  std::map<std::string, std::string> headers;  // lower-case names; of several responses the first that has it
  std::string location;                        // of a redirect that was not followed: the whole URL that it names
  std::string text;                            // body without a sink, or of an error
};

// Throws what begin, sink, stopped or may_connect threw, once the connection is closed.
[[nodiscard]] HttpReply http_get(const HttpRequest& request);

// Percent-encodes all but unreserved characters; `keep_slash` for paths (RFC 3986).
[[nodiscard]] std::string url_encode(std::string_view text, bool keep_slash);
// The text with its escapes undone. None: an escape is broken, or stands for a zero byte.
[[nodiscard]] std::optional<std::string> url_decode(std::string_view text);

}  // namespace tern::hub
