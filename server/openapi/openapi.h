// What the server's routes take and give, as OpenAPI 3.1 says it: GET /openapi.json.
#pragma once

#include <string>
#include <string_view>

#include "server/router.h"

namespace tern::server {

// The whole document; `version` is tern's, `more` a fragment (fragments.h) of what this server has beside the others.
[[nodiscard]] std::string openapi_document(const std::string& version, std::string_view more = {});

void add_openapi_route(Router& router, const std::string& version, std::string_view more = {});

}  // namespace tern::server
