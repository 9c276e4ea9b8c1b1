#include "io/json_field.h"

#include "base/strings.h"

namespace tern::io {

JsonPlace JsonPlace::field(std::string_view name) const {
  constexpr std::size_t kShown = 64;  // a foreign key may be any length
  JsonPlace inner = *this;
  if (!inner.path_.empty()) inner.path_ += '.';
  inner.path_ += name.substr(0, kShown);
  return inner;
}

JsonPlace JsonPlace::at(std::size_t index) const {
  JsonPlace inner = *this;
  inner.path_ += cat("[", index, "]");
  return inner;
}

std::string JsonPlace::where() const { return path_.empty() ? file_ : cat(file_, ": field \"", path_, "\""); }

Error JsonPlace::error(const std::string& expected, const std::string& found, const std::string& mend) const {
  return data_error(where(), expected, found, mend);
}

Failure JsonPlace::wrong(const std::string& expected, std::string_view found, const std::string& mend) const {
  constexpr std::size_t kShown = 60;
  if (found.size() <= kShown) return Failure(error(expected, std::string(found), mend));
  std::size_t end = kShown - 3;  // between two characters
  while (end > 0 && (static_cast<unsigned char>(found[end]) & 0xC0U) == 0x80U) --end;
  return Failure(error(expected, cat(found.substr(0, end), "..."), mend));
}

std::optional<JsonAccess::Object> JsonAccess::object(Value value) {
  return value->is_object() ? std::optional(value->items()) : std::nullopt;
}

std::optional<JsonAccess::Array> JsonAccess::array(Value value) {
  return value->is_array() ? std::optional(Array(value->begin(), value->end())) : std::nullopt;
}

std::optional<std::string_view> JsonAccess::text(Value value) {
  return value->is_string() ? std::optional<std::string_view>(value->text()) : std::nullopt;
}

std::optional<bool> JsonAccess::boolean(Value value) {
  return value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<double> JsonAccess::number(Value value) {
  return value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<std::int64_t> JsonAccess::integer(Value value) {
  if (!value->is_number_integer()) return std::nullopt;
  const auto number = value->get<std::int64_t>();
  return value->is_number_unsigned() && number < 0 ? std::nullopt : std::optional(number);  // beyond 63 bits
}

std::optional<std::uint64_t> JsonAccess::natural(Value value) {
  return value->is_number_unsigned() ? std::optional(value->get<std::uint64_t>()) : std::nullopt;
}

std::optional<JsonAccess::Value> JsonAccess::find(Value object, std::string_view key) {
  const Json* found = object->find(key);
  return found == nullptr ? std::nullopt : std::optional(found);
}

template class JsonFieldOf<JsonAccess>;

}  // namespace tern::io
