// The values that a chat template computes with: Python's, as Jinja sees them.
//
// Values are immutable and shared (chat templates run in Jinja's ImmutableSandboxedEnvironment, where no list, dict or
// string can be changed in place); only namespaces and iterators have state. Strings are UTF-8, indexed by code point.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace tern::jinja {

class Value;
class Evaluator;
using Values = std::vector<Value>;

struct None {};

// What Python's undefined values remember, to say it when something is done with them.
struct Undefined {
  std::string name;
  std::string owner;  // type of the object that lacks `name`; empty for a variable
  std::string hint;   // replaces the message made of the two
  [[nodiscard]] std::string message() const;
};

struct Text {
  std::string bytes;
  bool markup = false;  // came from |safe: added to plain text, the plain text is HTML-escaped
};

struct List;
struct Dict;
class Object;

using UndefinedPtr = std::shared_ptr<const Undefined>;
using TextPtr = std::shared_ptr<const Text>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using ObjectPtr = std::shared_ptr<Object>;

class Value {
 public:
  using Rep = std::variant<None, UndefinedPtr, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, ObjectPtr>;

  Value() = default;  // None
  Value(None) {}
  Value(bool value) : rep_(value) {}
  Value(std::int64_t value) : rep_(value) {}
  Value(int value) : rep_(std::int64_t{value}) {}
  Value(std::size_t value) : rep_(static_cast<std::int64_t>(value)) {}
  Value(double value) : rep_(value) {}
  Value(std::string text, bool markup = false);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(ListPtr list) : rep_(std::move(list)) {}
  Value(DictPtr dict) : rep_(std::move(dict)) {}
  Value(ObjectPtr object) : rep_(std::move(object)) {}
  static Value list(Values items);
  static Value tuple(Values items);
  static Value undefined(std::string name, std::string owner = {}, std::string hint = {});

  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(rep_); }
  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<UndefinedPtr>(rep_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(rep_); }
  [[nodiscard]] bool is_int() const { return std::holds_alternative<std::int64_t>(rep_); }  // not of a bool
  [[nodiscard]] bool is_float() const { return std::holds_alternative<double>(rep_); }
  [[nodiscard]] bool is_integral() const { return is_int() || is_bool(); }
  [[nodiscard]] bool is_number() const { return is_integral() || is_float(); }
  [[nodiscard]] bool is_text() const { return std::holds_alternative<TextPtr>(rep_); }
  [[nodiscard]] bool is_list() const { return std::holds_alternative<ListPtr>(rep_); }  // lists and tuples
  [[nodiscard]] bool is_dict() const { return std::holds_alternative<DictPtr>(rep_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<ObjectPtr>(rep_); }

  // Each needs the kind that its name says; integer() also takes a bool and real() any number.
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double real() const;
  [[nodiscard]] const std::string& text() const { return std::get<TextPtr>(rep_)->bytes; }
  [[nodiscard]] bool markup() const { return is_text() && std::get<TextPtr>(rep_)->markup; }
  [[nodiscard]] const List& list() const { return *std::get<ListPtr>(rep_); }
  [[nodiscard]] const Values& items() const;
  [[nodiscard]] const Dict& dict() const { return *std::get<DictPtr>(rep_); }
  [[nodiscard]] Object& object() const { return *std::get<ObjectPtr>(rep_); }
  [[nodiscard]] const Undefined& undefined() const { return *std::get<UndefinedPtr>(rep_); }
  template <typename T>
  [[nodiscard]] T* as() const {  // the object where it is of class T, else nullptr
    const auto* object = std::get_if<ObjectPtr>(&rep_);
    return object ? dynamic_cast<T*>(object->get()) : nullptr;
  }
  [[nodiscard]] const Rep& rep() const { return rep_; }

  [[nodiscard]] bool truthy() const;
  [[nodiscard]] std::string type_name() const;  // Python's: "str", "dict", "NoneType", ...
  [[nodiscard]] std::string str() const;        // Python's str()
  [[nodiscard]] std::string repr() const;       // Python's repr()
  [[nodiscard]] unsigned depth() const;         // how deep containers nest below this value
  [[nodiscard]] std::size_t weight() const;  // what walking over all of it costs: values, and 64 bytes of text as one

 private:
  Rep rep_;
};

// Deeper nesting than this is refused where a container is made, so that no walk over values can exhaust the stack.
inline constexpr unsigned max_value_depth = 200;
// And heavier ones too: a list that holds one list many times is small, but all that is printed of it is not.
inline constexpr std::size_t max_value_weight = std::size_t{1} << 20;

struct List {
  Values items;
  bool tuple = false;
  unsigned depth = 1;
  std::size_t weight = 1;
};

// Insertion-ordered, as Python's; keys compare as Python's do (1 == 1.0 == True).
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  unsigned depth = 1;
  std::size_t weight = 1;

  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* get(std::string_view key) const;
  void set(Value key, Value value);  // replaces in place; throws Problem for an unhashable key

 private:
  std::unordered_map<std::string, std::size_t> index_;  // by hash_key, once there are more than a few entries
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

// Everything with behaviour: functions, namespaces, loops, iterators.
class Object {
 public:
  explicit Object(unsigned depth = 1);
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  [[nodiscard]] virtual std::string type_name() const = 0;
  [[nodiscard]] virtual std::string repr() const;
  [[nodiscard]] virtual bool truthy() const { return true; }
  [[nodiscard]] virtual bool callable() const { return false; }
  // The attribute, or an undefined value made by the caller where there is none: nullptr-like via false.
  [[nodiscard]] virtual bool attribute(Evaluator&, std::string_view, Value&) { return false; }
  virtual Value call(Evaluator&, const Arguments&);
  // Items to iterate over; false where the object cannot be iterated. An iterator is used up by it.
  [[nodiscard]] virtual bool iterate(Values&) { return false; }
  [[nodiscard]] virtual std::int64_t length() const { return -1; }  // -1: has none
  [[nodiscard]] unsigned depth() const { return depth_; }

 private:
  unsigned depth_;
};

// A range, what dict.keys(), .values() and .items() give, or a generator: Python objects that are walked over. A
// generator is walked once, is always true and has no length.
class Iterable final : public Object {
 public:
  Iterable(std::string type, Values items);
  [[nodiscard]] std::string type_name() const override { return type_; }
  [[nodiscard]] std::string repr() const override;
  [[nodiscard]] bool truthy() const override { return is_generator() || !items_.empty(); }
  [[nodiscard]] bool iterate(Values& out) override;
  [[nodiscard]] std::int64_t length() const override {
    return is_generator() ? -1 : static_cast<std::int64_t>(items_.size());
  }
  [[nodiscard]] bool is_generator() const { return type_ == "generator"; }
  [[nodiscard]] bool is_range() const { return type_ == "range"; }
  [[nodiscard]] const Values& items() const { return items_; }
  [[nodiscard]] bool next(Value& out);

 private:
  std::string type_;  // range, generator, dict_keys, dict_values, dict_items
  Values items_;
  std::size_t at_ = 0;  // of a generator: how many were walked over
};

// A Python exception on its way to the place that knows the template's line.
struct Problem {
  std::string expected;
  std::string found;
};

[[nodiscard]] bool equal(const Value& a, const Value& b);
// -1, 0, 1; 2 for NaN. Throws Problem where Python's `<` raises TypeError.
[[nodiscard]] int compare(const Value& a, const Value& b, const char* symbol);
[[nodiscard]] std::string hash_key(const Value& value);  // equal keys have equal text; throws Problem if unhashable

[[nodiscard]] std::string float_repr(double value);
[[nodiscard]] std::string string_repr(std::string_view text);

[[nodiscard]] Value make_dict(std::vector<std::pair<Value, Value>> entries);

}  // namespace tern::jinja
