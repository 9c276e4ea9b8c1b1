// JSON in and out of flags; the library's header stays in json_text.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::cli {

// One key of a flat object: its value as the words that a user would type.
struct Field {
  std::string key;
  std::vector<std::string> words;  // empty for null
  bool is_object = false;          // its one word is JSON text
};

[[nodiscard]] bool is_json_object(std::string_view text);

// The text as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_quote(std::string_view text);

// The fields of a flat object in their order: numbers and booleans as text, lists as words, objects as JSON text. YAML
// where `name` ends in .yaml or .yml, else JSON; `name` begins the error.
[[nodiscard]] Result<std::vector<Field>> read_fields(std::string_view text, const std::string& name);

}  // namespace tern::cli
