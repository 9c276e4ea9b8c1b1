// Filters, tests and functions of Jinja, and methods of Python's str and dict.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/eval.h"
#include "jinja/value.h"

namespace tern::jinja {

[[nodiscard]] bool has_filter(std::string_view name);
[[nodiscard]] bool has_test(std::string_view name);
// Each throws Problem: an unknown name, wrong arguments, or what Python would raise.
[[nodiscard]] Value call_filter(Evaluator& evaluator, std::string_view name, const Value& operand,
                                const Arguments& arguments);
[[nodiscard]] bool call_test(Evaluator& evaluator, std::string_view name, const Value& operand,
                             const Arguments& arguments);
// The method bound to `self`; false where its type has none of the name.
[[nodiscard]] bool find_method(const Value& self, std::string_view name, Value& out);
[[nodiscard]] const std::vector<std::pair<std::string, Value>>& globals();

// ---- for their implementation

// Arguments by the names of a signature: bound("center", arguments, {"width", "fillchar"}, 1)[0] is the width. Throws
// Problem for one too many, one unknown, one twice, or fewer than `required`. The last `named_only` are given by name.
class Bound {
 public:
  Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> names,
        std::size_t required = 0, std::size_t named_only = 0);
  [[nodiscard]] const Value* operator[](std::size_t index) const { return values_[index]; }  // null: not given
  [[nodiscard]] std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  [[nodiscard]] const std::string& text(std::size_t index) const;  // must be given, as a string
  [[nodiscard]] bool flag(std::size_t index, bool otherwise) const;
  [[nodiscard]] bool given(std::size_t index) const { return values_[index] && !values_[index]->is_none(); }

 private:
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

class Builtin final : public Object {
 public:
  using Body = std::function<Value(Evaluator&, const Arguments&)>;
  Builtin(std::string name, Body body, unsigned depth = 1)
      : Object(depth), name_(std::move(name)), body_(std::move(body)) {}
  [[nodiscard]] std::string type_name() const override { return "builtin_function_or_method"; }
  [[nodiscard]] std::string repr() const override { return "<built-in " + name_ + ">"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Evaluator& evaluator, const Arguments& arguments) override { return body_(evaluator, arguments); }

 private:
  std::string name_;
  Body body_;
};

[[nodiscard]] const std::string& text_of(const Value& value, const char* what);  // throws Problem unless a string
[[nodiscard]] std::int64_t integer_of(const Value& value, const char* what);     // throws Problem unless integral
[[nodiscard]] std::size_t length_of(const Value& value);                         // len(); throws Problem

// format.cpp: "%s %d" % values, and "{} {}".format(values).
[[nodiscard]] Value percent_format(Evaluator& evaluator, std::string_view format, const Values& values);
[[nodiscard]] std::string brace_format(Evaluator& evaluator, std::string_view format, const Values& values);
// json.cpp: transformers' tojson (json.dumps with its arguments).
[[nodiscard]] Value to_json(Evaluator& evaluator, const Value& value, const Arguments& arguments);

}  // namespace tern::jinja
