// How errors are written: by protocol, as clients read their own form alone.
#pragma once

#include <string_view>

#include "base/status.h"
#include "server/http.h"

namespace tern::server {

// The whole answer, with `headers` and with Retry-After where the status asks for one.
using ErrorWriter = void (*)(HttpExchange& exchange, const Error& error, int status, Headers headers);

// That of the protocol which `path` belongs to: OpenAI's where it is none's.
[[nodiscard]] ErrorWriter error_form(std::string_view path);

// The same for an error that HTTP itself makes. Gives body and content type.
[[nodiscard]] std::pair<std::string, std::string> http_error_body(int status, std::string_view message,
                                                                  std::string_view path);

}  // namespace tern::server
