// OpenAI's error object.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/http.h"

namespace tern::server::openai {

// {"error": {"message", "type", "param", "code"}}
[[nodiscard]] std::string error_body(const Error& failure, int status);

// The whole answer, with Retry-After where the status asks for one.
void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers = {});

}  // namespace tern::server::openai
