// What the server's routes take and give, as OpenAPI 3.1 says it: GET /openapi.json.
#pragma once

#include <string>
#include <string_view>

#include "server/router.h"

namespace tern::server {

// The whole document; `version` is tern's.
[[nodiscard]] std::string openapi_document(const std::string& version);

void add_openapi_route(Router& router, const std::string& version);

}  // namespace tern::server
