// Names of answers, which clients tell them apart by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tern::server {

// `prefix` and 24 random hexadecimal digits: "chatcmpl-...".
[[nodiscard]] std::string random_id(std::string_view prefix);
// Seconds since 1970.
[[nodiscard]] std::int64_t unix_time();

}  // namespace tern::server
