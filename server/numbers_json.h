// Vectors as answers have them: numbers, or the text that OpenAI's clients ask for.
#pragma once

#include <span>
#include <string>

#include "io/json.h"
#include "server/json_body.h"

namespace tern::server {

// The body's encoding_format: float, or base64. Throws Failure (data).
[[nodiscard]] bool wants_base64(JsonBody& body);

// The numbers, or as text the base64 of their 4-byte floats, the lowest byte first.
[[nodiscard]] io::Json numbers_json(std::span<const float> values, bool as_text);

}  // namespace tern::server
