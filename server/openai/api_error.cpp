#include "server/openai/api_error.h"

#include "io/json.h"
#include "server/json_body.h"

namespace tern::server::openai {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string error_body(const Error& failure, int status) {
  const std::string param = field_of(failure);
  io::Json error = io::Json::object();
  error["message"] = failure.line();
  error["type"] = type_of(status);
  error["param"] = param.empty() ? io::Json() : io::Json(param);
  error["code"] = status;
  io::Json body = io::Json::object();
  body["error"] = std::move(error);
  return body.dump();
}

void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers) {
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  exchange.respond(status, "application/json", error_body(error, status), std::move(headers));
}

}  // namespace tern::server::openai
