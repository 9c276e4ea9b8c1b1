// JSON that a test has written itself.
#pragma once

#include <istream>
#include <iterator>
#include <string>
#include <string_view>

#include "io/json.h"

namespace tern::test {

[[nodiscard]] inline io::Json parsed_json(std::string_view text) { return io::parse_json(text, "test").value(); }
[[nodiscard]] inline io::Json parsed_json(std::istream&& text) {
  return parsed_json(std::string(std::istreambuf_iterator<char>(text), {}));
}

}  // namespace tern::test
