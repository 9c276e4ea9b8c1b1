// JSON values, and JSON text to them with the place of every error. RFC 8259; a duplicate key is an error (the last one
// winning silently hides a mistake), depth is bounded, and so is work: linear in the text.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace tern::io {

inline constexpr int kMaxNesting = 256;

// A value that is read as what it is not.
class JsonError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename T>
concept JsonNumber = std::is_arithmetic_v<T> && !std::same_as<T, bool> && !std::same_as<T, char>;
template <typename T>
concept JsonScalar = JsonNumber<T> || std::same_as<T, bool> || std::same_as<T, std::string>;

// One value. An object's members keep their order; looking one up is linear in the object's size, so iterate over large
// objects (a vocabulary, a weight map) instead. Reading a value as what it isn't throws JsonError, which no user sees:
// what a user's file may hold wrongly is read by JsonField (io/json_field.h).
class Json {
 public:
  struct Member;

  Json();  // null
  Json(std::nullptr_t);
  Json(std::string text);
  Json(std::string_view text);
  Json(const char* text);
  template <std::same_as<bool> T>
  Json(T value) : Json(Given{}, value) {}
  template <JsonNumber T>
  Json(T value) : Json(Given{}, static_cast<Kept<T>>(value)) {}
  template <typename T>
  Json(const std::vector<T>& items);
  template <typename T>
  Json(const std::map<std::string, T>& members);
  // {"a", 1} is an array, {{"a", 1}, {"b", 2}} an object: what consists of pairs that begin with a string.
  Json(std::initializer_list<Json> items);
  static Json array(std::initializer_list<Json> items = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;  // by value: json["a"] = json["b"] may move what it copies
  ~Json();

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(rep_); }
  [[nodiscard]] bool is_boolean() const { return std::holds_alternative<bool>(rep_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(rep_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Items>(rep_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Members>(rep_); }
  [[nodiscard]] bool is_number_float() const { return std::holds_alternative<double>(rep_); }
  [[nodiscard]] bool is_number_unsigned() const;  // an integer of at least 0
  [[nodiscard]] bool is_number_integer() const;
  [[nodiscard]] bool is_number() const { return is_number_integer() || is_number_float(); }
  [[nodiscard]] const char* type_name() const;  // "null", "boolean", "number", "string", "array", "object"

  // The scalar as a T. Numbers convert as a cast does, where an integer of 64 bits holds them.
  template <JsonScalar T>
  [[nodiscard]] T get() const;
  [[nodiscard]] const std::string& text() const;

  [[nodiscard]] std::size_t size() const;  // of an array or object; of a scalar 1, of null 0
  [[nodiscard]] bool empty() const { return size() == 0; }
  // An array's items, for (const Json& item : json); of null none.
  [[nodiscard]] const Json* begin() const;
  [[nodiscard]] const Json* end() const;
  // An object's members, for (const auto& [key, value] : json.items()).
  [[nodiscard]] std::span<const Member> items() const;

  // The member of an object; null where there is none, and in any other value.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  // The member or item, which must be there.
  [[nodiscard]] const Json& operator[](std::string_view key) const;
  [[nodiscard]] const Json& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  template <std::integral T>
  [[nodiscard]] const Json& operator[](T index) const {
    return item(static_cast<std::size_t>(index));
  }
  // To write to: of an object the member, a new null one where there is none; null becomes an object.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  template <std::integral T>
  [[nodiscard]] Json& operator[](T index) {
    return const_cast<Json&>(item(static_cast<std::size_t>(index)));
  }

  Json& push_back(Json item);                 // to an array; null becomes one
  Json& append(std::string key, Json value);  // a member whose key is new, without looking; null becomes an object
  void erase(std::string_view key);           // of an object

  // Text without blanks, or indented. Bytes that are no UTF-8 become U+FFFD; numbers read back equal.
  [[nodiscard]] std::string dump(int indent = -1) const;
  [[nodiscard]] std::string dump_ascii() const;  // as \uXXXX what is not ASCII

  friend bool operator==(const Json& a, const Json& b);
  template <typename T>
  requires JsonScalar<T> || std::same_as<T, std::nullptr_t>
  friend bool operator==(const Json& a, const T& b) { return a == Json(b); }
  friend bool operator==(const Json& a, const char* b) { return a == Json(b); }
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  using Items = std::vector<Json>;
  using Members = std::vector<Member>;
  template <typename T>
  using Kept = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
  struct Given {};  // a scalar of just that type
  Json(Given, bool value);
  Json(Given, double value);
  Json(Given, std::int64_t value);
  Json(Given, std::uint64_t value);

  [[nodiscard]] const Json& item(std::size_t index) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer() const;  // of any number, as a cast makes it
  [[nodiscard]] double real() const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Items, Members> rep_;
};

struct Json::Member {
  std::string key;
  Json value;
};

template <typename T>
Json::Json(const std::vector<T>& items) : Json(array()) {
  for (const T& item : items) push_back(Json(item));
}

template <typename T>
Json::Json(const std::map<std::string, T>& members) : Json(object()) {
  for (const auto& [key, value] : members) append(key, value);
}

template <JsonScalar T>
T Json::get() const {
  if constexpr (std::same_as<T, bool>) {
    return boolean();
  } else if constexpr (std::same_as<T, std::string>) {
    return text();
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(real());
  } else {
    return static_cast<T>(integer());
  }
}

// `name` stands for the text in errors: `name:line:column`.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const std::string& name);
[[nodiscard]] Result<Json> read_json_file(const std::filesystem::path& path);

// Pretty (two spaces) and with a final newline, as Hugging Face writes its configurations; not escaped beyond need.
[[nodiscard]] std::string write_json(const Json& value);

}  // namespace tern::io
