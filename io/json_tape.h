// JSON as simdjson reads it, for what is large and only read (the vocabularies of tokenizer.json): with no values of
// its own to make, it takes a fifteenth (qwen3, 11 MB) to a fiftieth (gpt2, 2 MB) of the time that io::Json takes. Only
// for sources that include simdjson.
#pragma once

#include <simdjson.h>

#include "io/json_field.h"

namespace tern::io {

struct TapeAccess {
  using Root = simdjson::dom::element;
  using Value = simdjson::dom::element;
  using Object = simdjson::dom::object;
  using Array = simdjson::dom::array;
  static Value raw(Value value) { return value; }
  static Value value_of(Value item) { return item; }
  static Value value_of(const simdjson::dom::key_value_pair& member) { return member.value; }
  static std::string_view key_of(const simdjson::dom::key_value_pair& member) { return member.key; }
  static bool is_null(Value value) { return value.is_null(); }
  static std::optional<Object> object(Value value) { return as<Object>(value); }
  static std::optional<Array> array(Value value) { return as<Array>(value); }
  static std::optional<std::string_view> text(Value value) { return as<std::string_view>(value); }
  static std::optional<bool> boolean(Value value) { return as<bool>(value); }
  static std::optional<double> number(Value value) { return as<double>(value); }
  static std::optional<std::int64_t> integer(Value value) { return as<std::int64_t>(value); }
  static std::optional<std::uint64_t> natural(Value value) { return as<std::uint64_t>(value); }
  static std::optional<Value> find(Value object, std::string_view key);
  static std::string dump(Value value) { return simdjson::minify(value); }

 private:
  template <typename T>
  static std::optional<T> as(Value value) {
    T out;
    return value.get(out) == simdjson::SUCCESS ? std::optional<T>(out) : std::nullopt;
  }
};

using TapeField = JsonFieldOf<TapeAccess>;
extern template class JsonFieldOf<TapeAccess>;

// Parses a document; `parser` owns what the fields refer to. Throws Failure (data) naming `file`.
[[nodiscard]] TapeField parse_tape(simdjson::dom::parser& parser, std::string_view text, std::string file,
                                   const char* mend);

}  // namespace tern::io
