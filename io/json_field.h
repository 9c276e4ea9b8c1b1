// Reading what a file's JSON holds: a value with its place, whose getters say where, what and how to mend it:
//   config.json: field "rope_parameters.factor": expected a number, found "x"; take config.json from ... again
// It reads two kinds of document: io::Json here, and simdjson's in io/json_tape.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/json.h"

namespace tern::io {

// A file, or a line of one, and the path of a field inside it. Every error in a field of JSON is made here.
class JsonPlace {
 public:
  explicit JsonPlace(std::string file) : file_(std::move(file)) {}
  [[nodiscard]] JsonPlace field(std::string_view name) const;  // .name
  [[nodiscard]] JsonPlace at(std::size_t index) const;         // [index]
  [[nodiscard]] std::string where() const;                     // `train.jsonl:17: field "messages[0].role"`
  [[nodiscard]] Error error(const std::string& expected, const std::string& found, const std::string& mend) const;
  // Of a value given as JSON text, which is shortened.
  [[nodiscard]] Failure wrong(const std::string& expected, std::string_view found, const std::string& mend) const;

 private:
  std::string file_;
  std::string path_;
};

// How a JsonFieldOf reads a document: a value as what it is, nothing where it is something else.
struct JsonAccess {
  using Root = Json;
  using Value = const Json*;
  using Object = std::span<const Json::Member>;
  using Array = std::span<const Json>;
  static const Json& raw(Value value) { return *value; }
  static Value value_of(const Json& item) { return &item; }
  static Value value_of(const Json::Member& member) { return &member.value; }
  static std::string_view key_of(const Json::Member& member) { return member.key; }
  static bool is_null(Value value) { return value->is_null(); }
  static std::optional<Object> object(Value value);
  static std::optional<Array> array(Value value);
  static std::optional<std::string_view> text(Value value);
  static std::optional<bool> boolean(Value value);
  static std::optional<double> number(Value value);
  static std::optional<std::int64_t> integer(Value value);
  static std::optional<std::uint64_t> natural(Value value);
  static std::optional<Value> find(Value object, std::string_view key);
  static std::string dump(Value value) { return value->dump(); }
};

// A value of a file and its place. A getter throws Failure (data) where the value is of another type, with `mend`,
// which outlives the fields. A null member is as good as none, as in the files of Hugging Face.
template <typename Access>
class JsonFieldOf {
 public:
  // The document, which outlives its fields.
  JsonFieldOf(const typename Access::Root& root, std::string file, const char* mend)
      : JsonFieldOf(Access::value_of(root), JsonPlace(std::move(file)), mend) {}

  [[nodiscard]] decltype(auto) json() const { return Access::raw(value_); }
  [[nodiscard]] const JsonPlace& place() const { return place_; }
  [[nodiscard]] std::string where() const { return place_.where(); }

  // A path and a search take time: walk what is large by object() and array(), and ask for the field that is wrong.
  [[nodiscard]] typename Access::Object object() const { return must(Access::object(value_), "an object"); }
  [[nodiscard]] typename Access::Array array() const { return must(Access::array(value_), "an array"); }
  [[nodiscard]] std::string_view text() const { return must(Access::text(value_), "a string"); }
  [[nodiscard]] bool boolean() const { return must(Access::boolean(value_), "true or false"); }
  [[nodiscard]] double number() const { return must(Access::number(value_), "a number"); }
  [[nodiscard]] std::int64_t integer() const { return must(Access::integer(value_), "an integer"); }
  [[nodiscard]] std::uint64_t natural() const { return must(Access::natural(value_), "an integer of at least 0"); }
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] std::vector<std::int64_t> integers() const;  // also of a single one

  // The member of an object, nothing where it is absent or null.
  [[nodiscard]] std::optional<JsonFieldOf> find(std::string_view key) const;
  [[nodiscard]] JsonFieldOf at(std::string_view key) const;  // Failure where it is absent or null
  [[nodiscard]] std::vector<JsonFieldOf> items() const;      // of an array
  // One of object() or array(), null or not.
  template <typename Member>
  [[nodiscard]] JsonFieldOf member(const Member& one) const {
    return {Access::value_of(one), place_.field(Access::key_of(one)), mend_};
  }
  template <typename Item>
  [[nodiscard]] JsonFieldOf item(const Item& one, std::size_t index) const {
    return {Access::value_of(one), place_.at(index), mend_};
  }

  // The member, `otherwise` where it is absent or null.
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;

  // The error of a value that is not as `expected`: it says the value, shortened.
  [[nodiscard]] Failure wrong(const std::string& expected) const { return wrong(expected, mend_); }
  [[nodiscard]] Failure wrong(const std::string& expected, const std::string& mend) const {
    return place_.wrong(expected, Access::dump(value_), mend);
  }

 private:
  JsonFieldOf(typename Access::Value value, JsonPlace place, const char* mend)
      : value_(value), place_(std::move(place)), mend_(mend) {}
  template <typename T>
  T must(std::optional<T> found, const char* expected) const {
    if (!found) throw wrong(expected);
    return *std::move(found);
  }

  typename Access::Value value_;
  JsonPlace place_;
  const char* mend_;
};

template <typename Access>
std::vector<std::string> JsonFieldOf<Access>::texts() const {
  std::vector<std::string> out;
  const auto items = Access::array(value_);
  if (!items) throw wrong("a list of strings");
  for (const auto& one : *items) {
    const auto text = Access::text(Access::value_of(one));
    out.emplace_back(must(text, "a list of strings"));
  }
  return out;
}

template <typename Access>
std::vector<std::int64_t> JsonFieldOf<Access>::integers() const {
  constexpr const char* kExpected = "an integer or a list of integers";
  if (const auto single = Access::integer(value_)) return {*single};
  std::vector<std::int64_t> out;
  for (const auto& one : must(Access::array(value_), kExpected)) {
    out.push_back(must(Access::integer(Access::value_of(one)), kExpected));
  }
  return out;
}

template <typename Access>
std::optional<JsonFieldOf<Access>> JsonFieldOf<Access>::find(std::string_view key) const {
  (void)object();
  const auto value = Access::find(value_, key);
  if (!value || Access::is_null(*value)) return std::nullopt;
  return JsonFieldOf(*value, place_.field(key), mend_);
}

template <typename Access>
JsonFieldOf<Access> JsonFieldOf<Access>::at(std::string_view key) const {
  auto found = find(key);
  if (!found) throw Failure(place_.error("a field \"" + std::string(key) + "\"", "none", mend_));
  return *std::move(found);
}

template <typename Access>
std::vector<JsonFieldOf<Access>> JsonFieldOf<Access>::items() const {
  std::vector<JsonFieldOf> out;
  for (const auto& one : array()) out.push_back(item(one, out.size()));
  return out;
}

template <typename Access>
std::string JsonFieldOf<Access>::text(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return std::string(found ? found->text() : otherwise);
}

template <typename Access>
bool JsonFieldOf<Access>::boolean(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

template <typename Access>
double JsonFieldOf<Access>::number(std::string_view key, double otherwise) const {
  const auto found = find(key);
  return found ? found->number() : otherwise;
}

template <typename Access>
std::int64_t JsonFieldOf<Access>::integer(std::string_view key, std::int64_t otherwise) const {
  const auto found = find(key);
  return found ? found->integer() : otherwise;
}

using JsonField = JsonFieldOf<JsonAccess>;
extern template class JsonFieldOf<JsonAccess>;

}  // namespace tern::io
