#include "jinja/builtins.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "jinja/unicode.h"

namespace tern::jinja {

Bound::Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> names,
             std::size_t required, std::size_t named_only)
    : names_(names), values_(names.size(), nullptr) {
  const std::size_t most = names_.size() - named_only;
  if (arguments.positional.size() > most) {
    throw Problem{cat("at most ", most, " arguments for ", function), cat(arguments.positional.size())};
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keyword) {
    const auto at =
        std::find_if(names_.begin(), names_.end(), [&name = name](const char* known) { return name == known; });
    if (at == names_.end())
      throw Problem{cat("an argument of ", function, " that chat templates use"), string_repr(name)};
    const Value*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
    if (slot) throw Problem{cat("each argument of ", function, " once"), string_repr(name)};
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values_[i]) throw Problem{cat("the argument `", names_[i], "` of ", function), "none"};
  }
}

std::int64_t Bound::integer(std::size_t index, std::int64_t otherwise) const {
  return values_[index] ? integer_of(*values_[index], names_[index]) : otherwise;
}

const std::string& Bound::text(std::size_t index) const { return text_of(*values_[index], names_[index]); }

bool Bound::flag(std::size_t index, bool otherwise) const {
  return values_[index] ? values_[index]->truthy() : otherwise;
}

const std::string& text_of(const Value& value, const char* what) {
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  if (!value.is_text()) throw Problem{cat("a string (", what, ")"), cat("a ", value.type_name())};
  return value.text();
}

std::int64_t integer_of(const Value& value, const char* what) {
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  if (!value.is_integral()) throw Problem{cat("an integer (", what, ")"), cat("a ", value.type_name())};
  return value.integer();
}

std::size_t length_of(const Value& value) {
  if (value.is_text()) return code_point_count(value.text());
  if (value.is_list()) return value.items().size();
  if (value.is_dict()) return value.dict().entries.size();
  if (value.is_undefined()) return 0;
  const std::int64_t length = value.is_object() ? value.object().length() : -1;
  if (length < 0) throw Problem{"something with a length", cat("a ", value.type_name())};
  return static_cast<std::size_t>(length);
}

// ---- tests

namespace {

bool iterable(const Value& value) {
  return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined() || value.as<Iterable>();
}

bool sequence(const Value& value) {
  const auto* walked = value.as<Iterable>();
  return walked ? walked->is_range() : iterable(value);
}

template <BinaryOp op>
bool comparison(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("the test", arguments, {"other"}, 1);
  return binary(evaluator, op, value, *bound[0]).truthy();
}

template <auto test>
bool plain(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound none("the test", arguments, {});
  return test(value);
}

using Test = bool (*)(Evaluator&, const Value& operand, const Arguments&);

const std::map<std::string_view, Test>& test_table() {
  static const std::map<std::string_view, Test> table{
      {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
      {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
      {"none", plain<[](const Value& v) { return v.is_none(); }>},
      {"boolean", plain<[](const Value& v) { return v.is_bool(); }>},
      {"true", plain<[](const Value& v) { return v.is_bool() && v.integer(); }>},
      {"false", plain<[](const Value& v) { return v.is_bool() && !v.integer(); }>},
      {"integer", plain<[](const Value& v) { return v.is_int(); }>},
      {"float", plain<[](const Value& v) { return v.is_float(); }>},
      {"number", plain<[](const Value& v) { return v.is_number(); }>},
      {"string", plain<[](const Value& v) { return v.is_text(); }>},
      {"mapping", plain<[](const Value& v) { return v.is_dict(); }>},
      {"sequence", plain<sequence>},
      {"iterable", plain<iterable>},
      {"in", comparison<BinaryOp::in>},
      {"==", comparison<BinaryOp::eq>},
      {"eq", comparison<BinaryOp::eq>},
      {"equalto", comparison<BinaryOp::eq>},
      {"!=", comparison<BinaryOp::ne>},
      {"ne", comparison<BinaryOp::ne>},
      {">", comparison<BinaryOp::gt>},
      {"gt", comparison<BinaryOp::gt>},
      {"greaterthan", comparison<BinaryOp::gt>},
      {">=", comparison<BinaryOp::ge>},
      {"ge", comparison<BinaryOp::ge>},
      {"<", comparison<BinaryOp::lt>},
      {"lt", comparison<BinaryOp::lt>},
      {"lessthan", comparison<BinaryOp::lt>},
      {"<=", comparison<BinaryOp::le>},
      {"le", comparison<BinaryOp::le>},
  };
  return table;
}

}  // namespace

bool has_test(std::string_view name) { return test_table().contains(name); }

bool call_test(Evaluator& evaluator, std::string_view name, const Value& operand, const Arguments& arguments) {
  const auto found = test_table().find(name);
  if (found == test_table().end()) throw Problem{"a test that chat templates use", cat("`", name, "`")};
  evaluator.step_over(operand);
  for (const Value& value : arguments.positional) evaluator.step_over(value);
  return found->second(evaluator, operand, arguments);
}

}  // namespace tern::jinja
