// What a URL of the web names, as the HTTP client reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tern::hub {

struct Url {
  std::string text;  // as the client is to be asked for it
  std::string host;  // in lower case, escapes undone, an IPv6 address without brackets, no dot at the end
  bool secure = false;
};

// None: it isn't an http:// or https:// URL.
[[nodiscard]] std::optional<Url> parse_url(const std::string& text);

// Whether a numeric address is one of the public internet (IANA's registries of special-purpose addresses): no
// loopback, link-local, private, shared, multicast, documentation or reserved one, nor an IPv6 address that stands for
// such an IPv4 one.
[[nodiscard]] bool is_public_address(std::string_view address);

}  // namespace tern::hub
