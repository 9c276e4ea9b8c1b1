// Server-sent events (WHATWG HTML, 9.2), as the protocols that name their events write them.
#pragma once

#include <string>
#include <string_view>

#include "base/strings.h"
#include "io/json.h"

namespace tern::server {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// The event's name stands in its data too, as "type": clients read either.
[[nodiscard]] inline std::string sse_event(std::string_view name, const io::Json& data) {
  return cat("event: ", name, "\ndata: ", data.dump(), "\n\n");  // dump() writes no line break
}

}  // namespace tern::server
