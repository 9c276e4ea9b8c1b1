#include "jinja/builtins.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/strings.h"
#include "jinja/unicode.h"

namespace tern::jinja {

Bound::Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> names,
             std::size_t required)
    : names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    throw Problem{cat("at most ", names_.size(), " arguments for ", function), cat(arguments.positional.size())};
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keyword) {
    const auto at =
        std::find_if(names_.begin(), names_.end(), [&name = name](const char* known) { return name == known; });
    if (at == names_.end()) throw Problem{cat("an argument that ", function, " takes"), string_repr(name)};
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

std::string soft_text(const Value& value) { return value.str(); }

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

Problem unknown_attribute(const char* what, std::string_view name, Site site) {
  return Problem{cat("a ", what, " that Jinja knows"), cat("`", name, "`"), site};
}

// ---- filters

namespace {

const std::map<std::string_view, Filter>& filter_table() {
  static const std::map<std::string_view, Filter> table = [] {
    std::map<std::string_view, Filter> out;
    for (const auto& rows : {text_filters(), sequence_filters(), number_filters()}) {
      for (const FilterRow& row : rows) out.emplace(row.name, row.filter);
    }
    return out;
  }();
  return table;
}

const Value& defined(const Value& value) {
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  return value;
}

// ---- tests

bool even(const Value& value, std::int64_t divisor) {
  if (divisor == 0) throw Problem{"a divisor other than 0", "0"};
  defined(value);
  if (value.is_float()) return std::fmod(value.real(), static_cast<double>(divisor)) == 0;
  const std::int64_t number = integer_of(value, "the tested value");
  return divisor == -1 || number % divisor == 0;
}

bool iterable(const Value& value) {
  if (value.is_text() || value.is_list() || value.is_dict() || value.is_undefined()) return true;
  return value.as<Range>() || value.as<Iterator>() || value.as<DictView>();
}

bool all_case(const std::string& text, CharacterClass wanted, CharacterClass other) {
  bool any = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    if (in_class(c, other) || in_class(c, CharacterClass::title)) return false;
    any = any || in_class(c, wanted);
  }
  return any;
}

template <CompareOp op>
bool comparison(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("the test", arguments, {"other"}, 1);
  return compared(evaluator, op, value, *bound[0]);
}

template <auto test>
bool plain(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound none("the test", arguments, {});
  return test(value);
}

template <bool (*known)(std::string_view)>
bool knows(Evaluator&, const Value& value, const Arguments&) {
  return value.is_text() && known(value.text());
}

struct TestRow {
  std::string_view name;
  Test test;
};

const std::map<std::string_view, Test>& test_table() {
  static const TestRow rows[] = {
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
      {"sequence", plain<[](const Value& v) {
         return v.is_text() || v.is_list() || v.is_dict() || v.is_undefined() || v.as<Range>();
       }>},
      {"iterable", plain<[](const Value& v) { return iterable(v); }>},
      {"callable", plain<[](const Value& v) { return v.is_undefined() || (v.is_object() && v.object().callable()); }>},
      {"escaped", plain<[](const Value& v) { return v.markup(); }>},
      {"lower", plain<[](const Value& v) { return all_case(v.str(), CharacterClass::lower, CharacterClass::upper); }>},
      {"upper", plain<[](const Value& v) { return all_case(v.str(), CharacterClass::upper, CharacterClass::lower); }>},
      {"odd", plain<[](const Value& v) { return !even(v, 2); }>},
      {"even", plain<[](const Value& v) { return even(v, 2); }>},
      {"divisibleby",
       [](Evaluator&, const Value& value, const Arguments& arguments) {
         return even(value, Bound("divisibleby", arguments, {"num"}, 1).integer(0, 1));
       }},
      {"sameas",
       [](Evaluator&, const Value& value, const Arguments& arguments) {
         return identical(value, *Bound("sameas", arguments, {"other"}, 1)[0]);
       }},
      {"in", comparison<CompareOp::in>},
      {"filter", knows<has_filter>},
      {"test", knows<has_test>},
      {"==", comparison<CompareOp::eq>},
      {"eq", comparison<CompareOp::eq>},
      {"equalto", comparison<CompareOp::eq>},
      {"!=", comparison<CompareOp::ne>},
      {"ne", comparison<CompareOp::ne>},
      {">", comparison<CompareOp::gt>},
      {"gt", comparison<CompareOp::gt>},
      {"greaterthan", comparison<CompareOp::gt>},
      {">=", comparison<CompareOp::ge>},
      {"ge", comparison<CompareOp::ge>},
      {"<", comparison<CompareOp::lt>},
      {"lt", comparison<CompareOp::lt>},
      {"lessthan", comparison<CompareOp::lt>},
      {"<=", comparison<CompareOp::le>},
      {"le", comparison<CompareOp::le>},
  };
  static const std::map<std::string_view, Test> table = [] {
    std::map<std::string_view, Test> out;
    for (const TestRow& row : rows) out.emplace(row.name, row.test);
    return out;
  }();
  return table;
}

}  // namespace

bool has_filter(std::string_view name) { return filter_table().contains(name); }
bool has_test(std::string_view name) { return test_table().contains(name); }

Value call_filter(Evaluator& evaluator, std::string_view name, const Value& operand, const Arguments& arguments) {
  const auto found = filter_table().find(name);
  if (found == filter_table().end()) throw unknown_attribute("filter", name);
  evaluator.step_over(operand);
  for (const Value& value : arguments.positional) evaluator.step_over(value);
  return found->second(evaluator, operand, arguments);
}

bool call_test(Evaluator& evaluator, std::string_view name, const Value& operand, const Arguments& arguments) {
  const auto found = test_table().find(name);
  if (found == test_table().end()) throw unknown_attribute("test", name);
  evaluator.step_over(operand);
  for (const Value& value : arguments.positional) evaluator.step_over(value);
  return found->second(evaluator, operand, arguments);
}

}  // namespace tern::jinja
