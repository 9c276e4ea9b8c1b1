#include "io/json_dom.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "base/strings.h"

namespace tern::io {

std::string kind_of(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      return "a number";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

namespace {

template <typename T>
T must(simdjson::dom::element value, const char* kind) {
  T out;
  if (value.get(out) != simdjson::SUCCESS) {
    throw std::logic_error(cat("JSON: ", kind, " asked for, ", kind_of(value), " there"));
  }
  return out;
}

}  // namespace

simdjson::dom::array array_in(simdjson::dom::element value) { return must<simdjson::dom::array>(value, "an array"); }
simdjson::dom::object object_in(simdjson::dom::element value) {
  return must<simdjson::dom::object>(value, "an object");
}
std::string_view string_in(simdjson::dom::element value) { return must<std::string_view>(value, "a string"); }

simdjson::dom::element element_at(simdjson::dom::array array, std::size_t index) {
  simdjson::dom::element out;
  if (array.at(index).get(out) != simdjson::SUCCESS) {
    throw std::logic_error("JSON: an element behind the array's end");
  }
  return out;
}

std::string json_problem(simdjson::error_code error) {
  switch (error) {
    case simdjson::EMPTY:
      return "nothing";
    case simdjson::UTF8_ERROR:
      return "bytes that are not UTF-8";
    case simdjson::UNCLOSED_STRING:
      return "a string without closing quote";
    case simdjson::STRING_ERROR:
      return "a string with a bad escape";
    case simdjson::NUMBER_ERROR:
      return "a malformed or too large number";
    case simdjson::DEPTH_ERROR:
      return "nesting too deep";
    case simdjson::UNESCAPED_CHARS:
      return "an unescaped control character in a string";
    default:
      return "a syntax error";
  }
}

std::string text_of(simdjson::dom::element value, const JsonPlace& place) {
  if (value.is_string()) return std::string(string_in(value));
  if (value.is_number() || value.is_bool()) return simdjson::minify(value);
  throw Failure(place.error("a string", kind_of(value), "write the value in quotes"));
}

double number_of(simdjson::dom::element value, const JsonPlace& place) {
  double number = 0;
  if (value.get(number) == simdjson::SUCCESS) return number;
  if (value.is_string()) {
    const std::string_view text = trim(string_in(value));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) return number;
  }
  throw Failure(place.error("a number", kind_of(value), "write a number without quotes"));
}

}  // namespace tern::io
