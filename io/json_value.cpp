// A JSON value's members; its text is in io/json.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "base/strings.h"
#include "io/json.h"

namespace tern::io {
namespace {

[[noreturn]] void wrong(const char* wanted, const Json& found) {
  throw JsonError(cat("JSON: ", wanted, " is asked for where there is a ", found.type_name()));
}

}  // namespace

// Here and not in the header: many sources hold a value.
Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  rep_ = std::move(other.rep_);
  return *this;
}
Json::~Json() = default;

Json::Json(Given /*tag*/, bool value) : rep_(value) {}
Json::Json(Given /*tag*/, double value) : rep_(value) {}
Json::Json(Given /*tag*/, std::int64_t value) : rep_(value) {}
Json::Json(Given /*tag*/, std::uint64_t value) : rep_(value) {}
Json::Json(std::nullptr_t) {}
Json::Json(std::string text) : rep_(std::move(text)) {}
Json::Json(std::string_view text) : rep_(std::string(text)) {}
Json::Json(const char* text) : rep_(std::string(text)) {}

Json::Json(std::initializer_list<Json> items) {
  const bool pairs = std::all_of(items.begin(), items.end(), [](const Json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_string();
  });
  if (!pairs || items.size() == 0) {
    *this = pairs ? object() : array(items);
    return;
  }
  rep_ = Members{};
  for (const Json& item : items) append(item[0].text(), item[1]);
}

Json Json::array(std::initializer_list<Json> items) {
  Json out;
  out.rep_ = Items(items);
  return out;
}

Json Json::object() {
  Json out;
  out.rep_ = Members{};
  return out;
}

bool Json::is_number_unsigned() const {
  const auto* integer = std::get_if<std::int64_t>(&rep_);
  return std::holds_alternative<std::uint64_t>(rep_) || (integer && *integer >= 0);
}

bool Json::is_number_integer() const {
  return std::holds_alternative<std::int64_t>(rep_) || std::holds_alternative<std::uint64_t>(rep_);
}

const char* Json::type_name() const {
  static constexpr std::array names{"null", "boolean", "number", "number", "number", "string", "array", "object"};
  return names[rep_.index()];
}

bool Json::boolean() const {
  const bool* value = std::get_if<bool>(&rep_);
  return value ? *value : (wrong("a boolean", *this), false);
}

std::int64_t Json::integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&rep_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&rep_)) return static_cast<std::int64_t>(*value);
  const auto* value = std::get_if<double>(&rep_);
  if (!value || !(std::fabs(*value) < 0x1p63)) wrong("an integer of 64 bits", *this);
  return static_cast<std::int64_t>(*value);
}

double Json::real() const {
  if (const auto* value = std::get_if<double>(&rep_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&rep_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::int64_t>(&rep_)) return static_cast<double>(*value);
  wrong("a number", *this);
}

const std::string& Json::text() const {
  const auto* value = std::get_if<std::string>(&rep_);
  return value ? *value : (wrong("a string", *this), *value);
}

std::size_t Json::size() const {
  if (const auto* items = std::get_if<Items>(&rep_)) return items->size();
  if (const auto* members = std::get_if<Members>(&rep_)) return members->size();
  return is_null() ? 0 : 1;
}

const Json* Json::begin() const {
  if (const auto* items = std::get_if<Items>(&rep_)) return items->data();
  if (!is_null()) wrong("an array", *this);
  return nullptr;
}

const Json* Json::end() const { return is_array() ? begin() + size() : begin(); }

std::span<const Json::Member> Json::items() const {
  const auto* members = std::get_if<Members>(&rep_);
  if (!members) wrong("an object", *this);
  return *members;
}

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Members>(&rep_);
  if (!members) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(), [&](const Member& one) { return one.key == key; });
  return found == members->end() ? nullptr : &found->value;
}

const Json& Json::operator[](std::string_view key) const {
  const Json* found = find(key);
  if (!found) throw JsonError(cat("JSON: no member \"", key, "\" in a ", type_name()));
  return *found;
}

Json& Json::operator[](std::string_view key) {
  const Json* found = find(key);
  return found ? const_cast<Json&>(*found) : append(std::string(key), {});
}

const Json& Json::item(std::size_t index) const {
  const auto* items = std::get_if<Items>(&rep_);
  if (!items || index >= items->size()) throw JsonError(cat("JSON: no item ", index, " in a ", type_name()));
  return (*items)[index];
}

Json& Json::push_back(Json item) {
  if (is_null()) rep_ = Items{};
  auto* items = std::get_if<Items>(&rep_);
  if (!items) wrong("an array", *this);
  return items->emplace_back(std::move(item));
}

Json& Json::append(std::string key, Json value) {
  if (is_null()) rep_ = Members{};
  auto* members = std::get_if<Members>(&rep_);
  if (!members) wrong("an object", *this);
  return members->emplace_back(Member{std::move(key), std::move(value)}).value;
}

void Json::erase(std::string_view key) {
  if (auto* members = std::get_if<Members>(&rep_))
    std::erase_if(*members, [&](const Member& one) { return one.key == key; });
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_number_float() || b.is_number_float()) return a.real() == b.real();
    return a.is_number_unsigned() == b.is_number_unsigned() && a.integer() == b.integer();
  }
  if (a.rep_.index() != b.rep_.index()) return false;
  if (a.is_boolean()) return a.boolean() == b.boolean();
  if (a.is_string()) return a.text() == b.text();
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end());
  if (a.is_null()) return true;
  const auto same = [](const Json::Member& x, const Json::Member& y) { return x.key == y.key && x.value == y.value; };
  return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same);
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace tern::io
