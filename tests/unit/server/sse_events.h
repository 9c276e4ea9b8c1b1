// The events of a stream, read as the standard says: their names and data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tern::server {

using Events = std::vector<std::pair<std::string, io::Json>>;

inline Events sse_events(const std::string& body) {
  Events out;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at), line = body.find('\n', at);
    const std::string name = body.substr(at, line - at), data = body.substr(line + 1, end - line - 1);
    if (!name.starts_with("event: ") || !data.starts_with("data: ")) throw std::runtime_error("no event: " + name);
    out.emplace_back(name.substr(7), io::parse_json(data.substr(6), "event").value());
    at = end + 2;
  }
  return out;
}

inline std::string names_of(const Events& events) {
  std::string out;
  for (const auto& [name, data] : events) out += name + " ";
  return out;
}

}  // namespace tern::server
