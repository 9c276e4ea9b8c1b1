#include "server/json_body.h"

#include "base/strings.h"

namespace tern::server {
namespace {

constexpr const char* kMend = "send it as the API's reference says";
constexpr std::string_view kPlaceBegin = "field \"";

std::string shortened(const io::Json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump();
  if (text.size() > kMost) text = cat(text.substr(0, kMost), "...");
  return text;
}

}  // namespace

JsonBody::JsonBody(std::string_view text) : json_(io::parse_json(text, "body").value()) {
  if (!json_.is_object()) throw Failure(data_error("body", "a JSON object", json_.type_name(), kMend));
}

JsonBody::JsonBody(const io::Json& object, std::string place) : json_(object), place_(std::move(place)) {
  if (json_.is_object()) return;
  throw Failure(data_error(cat(kPlaceBegin, place_, "\""), "an object", shortened(json_), kMend));
}

std::string JsonBody::place(std::string_view key) const { return cat(kPlaceBegin, inner(key), "\""); }

std::string JsonBody::inner(std::string_view key) const { return cat(place_, place_.empty() ? "" : ".", key); }

Failure JsonBody::wrong(std::string_view key, std::string_view expected) const {
  const io::Json* value = json_.find(key);
  return Failure(data_error(place(key), expected, value == nullptr ? "nothing" : shortened(*value), kMend));
}

const io::Json* JsonBody::find(std::string_view key) {
  read_.emplace(key);
  const io::Json* value = json_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<std::string> JsonBody::text(std::string_view key) {
  const io::Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw wrong(key, "a string");
  return value->text();
}

std::optional<bool> JsonBody::boolean(std::string_view key) {
  const io::Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw wrong(key, "true or false");
  return value->get<bool>();
}

std::optional<double> JsonBody::number(std::string_view key, double least, double most) {
  const io::Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) throw wrong(key, "a number");
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) throw wrong(key, cat("a number from ", least, " to ", most));
  return number;
}

std::optional<std::int64_t> JsonBody::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const io::Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) throw wrong(key, "an integer");
  const auto number = value->get<std::int64_t>();
  const bool open = most == std::numeric_limits<std::int64_t>::max();
  if (number < least || number > most) {
    throw wrong(key, open ? cat("an integer of at least ", least) : cat("an integer from ", least, " to ", most));
  }
  return number;
}

std::optional<JsonBody> JsonBody::object(std::string_view key) {
  const io::Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return JsonBody(*value, inner(key));
}

std::vector<std::string> JsonBody::texts(std::string_view key) {
  std::vector<std::string> out;
  const io::Json* value = find(key);
  if (value == nullptr) return out;
  if (value->is_string()) return {value->text()};
  if (!value->is_array()) throw wrong(key, "a string or a list of strings");
  for (const io::Json& one : *value) {
    if (!one.is_string()) throw wrong(key, "a string or a list of strings");
    out.push_back(one.text());
  }
  return out;
}

std::vector<std::int64_t> JsonBody::integers(std::string_view key) {
  std::vector<std::int64_t> out;
  const io::Json* value = find(key);
  if (value == nullptr) return out;
  if (!value->is_array()) throw wrong(key, "a list of integers");
  for (const io::Json& one : *value) {
    if (!one.is_number_integer()) throw wrong(key, "a list of integers");
    out.push_back(one.get<std::int64_t>());
  }
  return out;
}

std::string JsonBody::required_text(std::string_view key) {
  const auto value = text(key);
  if (!value) throw wrong(key, "a string");
  return *value;
}

void JsonBody::takes(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void JsonBody::finish() const {
  for (const auto& [key, value] : json_.items()) {
    if (value.is_null() || read_.contains(key)) continue;
    throw Failure(data_error(place(key), "a field of this route", "one that it does not have", "leave it out"));
  }
}

std::string field_of(const Error& error) {
  const auto at = error.where.find(kPlaceBegin);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kPlaceBegin.size();
  return error.where.substr(begin, error.where.find('"', begin) - begin);
}

}  // namespace tern::server
