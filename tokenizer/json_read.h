// Checked access to JSON: every wrong type is a Failure that names the field.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace tern::tokenizer {

// A JSON value and the name of its place, `tokenizer.json: model.vocab`.
// The mend of a tokenizer file with another form than it should have.
inline constexpr const char* kCorrectFile = "fetch the file again, or correct it";

class JsonValue {
 public:
  JsonValue(simdjson::dom::element value, std::string where) : value_(value), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] simdjson::dom::element raw() const { return value_; }
  [[nodiscard]] bool is_null() const { return value_.is_null(); }
  [[nodiscard]] bool is_string() const { return value_.is_string(); }
  [[nodiscard]] bool is_object() const { return value_.is_object(); }
  [[nodiscard]] bool is_array() const { return value_.is_array(); }

  // The member, or nothing where it is absent or null.
  [[nodiscard]] std::optional<JsonValue> get(std::string_view key) const;
  [[nodiscard]] JsonValue at(std::string_view key) const;  // absent or null: Failure

  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] simdjson::dom::array array() const;
  [[nodiscard]] simdjson::dom::object object() const;
  [[nodiscard]] char32_t character() const;  // a string of one code point

  [[nodiscard]] bool boolean(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] JsonValue child(simdjson::dom::element value, std::size_t index) const {
    return {value, cat(where_, "[", index, "]")};
  }
  [[nodiscard]] Failure wrong(std::string_view expected) const;

 private:
  simdjson::dom::element value_;
  std::string where_;
};

// Parses a document; `parser` owns what the value refers to. Throws Failure naming `where`.
[[nodiscard]] JsonValue parse_json(simdjson::dom::parser& parser, std::string_view json, const std::string& where);

}  // namespace tern::tokenizer
