// Reading foreign JSON values with the place of every error; only for sources that include simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::data {

// file:line and the field inside the row, for errors.
class Place {
 public:
  Place(const std::string& file, std::uint64_t line);
  [[nodiscard]] Place field(std::string_view name) const;  // .name
  [[nodiscard]] Place at(std::size_t index) const;         // [index]
  [[nodiscard]] std::string where() const;                 // `train.jsonl:17: field "messages[0].role"`
  [[nodiscard]] Error error(std::string expected, std::string found, std::string mend) const;

 private:
  std::string row_;
  std::string path_;
};

[[nodiscard]] std::string kind_of(simdjson::dom::element value);  // "a string", "an array", ...
[[nodiscard]] std::string json_problem(simdjson::error_code error);

// By value, for a type already checked (another throws std::logic_error): simdjson's own accessors hand out references
// into temporaries.
[[nodiscard]] simdjson::dom::array array_in(simdjson::dom::element value);
[[nodiscard]] simdjson::dom::object object_in(simdjson::dom::element value);
[[nodiscard]] std::string_view string_in(simdjson::dom::element value);
[[nodiscard]] simdjson::dom::element element_at(simdjson::dom::array array, std::size_t index);

// The text of a string, or of a number or boolean as written; anything else throws Failure.
[[nodiscard]] std::string text_of(simdjson::dom::element value, const Place& place);
// A finite number, also as a string holds one (CSV).
[[nodiscard]] double number_of(simdjson::dom::element value, const Place& place);
// true, false, 1, 0, also as strings.
[[nodiscard]] bool flag_of(simdjson::dom::element value, const Place& place);

}  // namespace tern::data
