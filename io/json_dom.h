// Reading the values of dataset rows, which are laxer than a file's fields (CSV holds numbers as text); the places and
// their errors are those of io/json_field.h. Rows stream through simdjson's documents: read into io::Json they would
// take fifteen times as long and more (io/json_tape.h). Only for sources that include simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "io/json_field.h"

namespace tern::io {

[[nodiscard]] std::string kind_of(simdjson::dom::element value);  // "a string", "an array", ...
[[nodiscard]] std::string json_problem(simdjson::error_code error);

// By value, for a type already checked (another throws std::logic_error): simdjson's own accessors hand out references
// into temporaries.
[[nodiscard]] simdjson::dom::array array_in(simdjson::dom::element value);
[[nodiscard]] simdjson::dom::object object_in(simdjson::dom::element value);
[[nodiscard]] std::string_view string_in(simdjson::dom::element value);
[[nodiscard]] simdjson::dom::element element_at(simdjson::dom::array array, std::size_t index);

// The text of a string, or of a number or boolean as written; anything else throws Failure.
[[nodiscard]] std::string text_of(simdjson::dom::element value, const JsonPlace& place);
// A finite number, also as a string holds one (CSV).
[[nodiscard]] double number_of(simdjson::dom::element value, const JsonPlace& place);

}  // namespace tern::io
