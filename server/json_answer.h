// What most routes end with.
#pragma once

#include <memory>

#include "io/json.h"
#include "server/http.h"

namespace tern::server {

// Answers 200 with the document.
inline void respond(const std::shared_ptr<HttpExchange>& exchange, const io::Json& json) {
  exchange->respond(200, "application/json", json.dump());
}

}  // namespace tern::server
