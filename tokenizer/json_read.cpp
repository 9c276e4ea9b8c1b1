#include "tokenizer/json_read.h"

#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

JsonValue parse_json(simdjson::dom::parser& parser, std::string_view json, const std::string& where) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(json.data(), json.size(), true).get(root)) {
    throw Failure(data_error(where, "a JSON document", simdjson::error_message(error), "fetch the file again"));
  }
  return {root, where};
}

Failure JsonValue::wrong(std::string_view expected) const {
  std::string found = simdjson::minify(value_);
  if (found.size() > 60) {
    std::size_t end = 57;
    while (end > 0 && is_continuation(found[end])) --end;
    found = found.substr(0, end) + "...";
  }
  return Failure(data_error(where_, std::string(expected), found, kCorrectFile));
}

std::optional<JsonValue> JsonValue::get(std::string_view key) const {
  simdjson::dom::element member;
  if (!value_.is_object()) throw wrong("an object");
  if (value_[key].get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
  return JsonValue(member, cat(where_, where_.ends_with(": ") || where_.find(": ") == std::string::npos ? "" : ".",
                               where_.find(": ") == std::string::npos ? ": " : "", key));
}

JsonValue JsonValue::at(std::string_view key) const {
  auto member = get(key);
  if (!member) throw Failure(data_error(where_, cat("a field \"", key, '"'), "none", kCorrectFile));
  return *member;
}

std::string_view JsonValue::text() const {
  std::string_view out;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("a string");
  return out;
}

bool JsonValue::boolean() const {
  bool out = false;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("true or false");
  return out;
}

std::int64_t JsonValue::integer() const {
  std::int64_t out = 0;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("an integer");
  return out;
}

double JsonValue::number() const {
  double out = 0;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("a number");
  return out;
}

simdjson::dom::array JsonValue::array() const {
  simdjson::dom::array out;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("an array");
  return out;
}

simdjson::dom::object JsonValue::object() const {
  simdjson::dom::object out;
  if (value_.get(out) != simdjson::SUCCESS) throw wrong("an object");
  return out;
}

char32_t JsonValue::character() const {
  const std::string_view whole = text();
  std::size_t at = 0;
  if (whole.empty()) throw wrong("one character");
  const char32_t c = next_char(whole, at);
  if (at != whole.size()) throw wrong("one character");
  return c;
}

bool JsonValue::boolean(std::string_view key, bool fallback) const {
  const auto member = get(key);
  return member ? member->boolean() : fallback;
}

std::string JsonValue::text(std::string_view key, std::string_view fallback) const {
  const auto member = get(key);
  return std::string(member ? member->text() : fallback);
}

}  // namespace tern::tokenizer
