// One HTTP or HTTPS POST, as http.h's GET but for redirects, which aren't followed.
#pragma once

#include <string>

#include "hub/http.h"

namespace tern::hub {

[[nodiscard]] HttpReply http_post(const HttpRequest& request, const std::string& body);

}  // namespace tern::hub
