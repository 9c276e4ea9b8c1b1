// The trace that a request is part of, as its client says it (W3C Trace Context, https://www.w3.org/TR/trace-context/).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace tern::server {

struct TraceContext {
  std::string traceparent;  // "00-<trace id>-<parent id>-<flags>"
  std::string tracestate;   // several headers joined; "": none, or not valid

  [[nodiscard]] std::string_view trace_id() const { return std::string_view(traceparent).substr(3, 32); }
};

// None where there is no traceparent, several, or one that isn't valid: what tracestate says is then void as well.
[[nodiscard]] std::optional<TraceContext> read_trace_context(const Headers& headers);

}  // namespace tern::server
