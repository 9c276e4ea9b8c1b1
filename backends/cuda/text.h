// Texts put together of strings and numbers.
#pragma once

#include <sstream>
#include <string>

namespace tern::cuda {

template <typename... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace tern::cuda
