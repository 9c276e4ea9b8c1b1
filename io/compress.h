// Whole texts, compressed in memory.
#pragma once

#include <string>
#include <string_view>

namespace tern::io {

// Throw std::bad_alloc where memory does not suffice; nothing else can go wrong.
[[nodiscard]] std::string gzip(std::string_view bytes);
[[nodiscard]] std::string zstd(std::string_view bytes);

}  // namespace tern::io
