// Jinja's filters that chat templates use.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

using Filter = Value (*)(Evaluator&, const Value& operand, const Arguments&);

// ---- text

// A filter that is a method of str: `value|name(...)` is str(value).name(...).
Value by_method(Evaluator& evaluator, const Value& value, const char* name, const Arguments& arguments) {
  Value method;
  (void)find_method(value.is_text() ? value : Value(value.str()), name, method);
  return evaluator.call(method, arguments);
}

Value lower_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "lower", arguments);
}
Value upper_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "upper", arguments);
}
Value capitalize_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  return by_method(evaluator, value, "capitalize", arguments);
}
Value trim_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound none("trim", arguments, {});
  return by_method(evaluator, value, "strip", {});
}

// Not str.title: a word begins after white space and -({[< only.
Value title_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound none("title", arguments, {});
  const std::string text = value.str();
  std::string out;
  bool inside = false;
  for (const std::string_view c : code_points(text)) {
    const bool between = strip(c, true, true).empty() || std::string_view("-({[<").find(c) != std::string_view::npos;
    out += inside ? to_lower(c) : to_upper(c);
    inside = !between;
  }
  return evaluator.text(std::move(out));
}

Value replace_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new"}, 2);
  return by_method(evaluator, Value(value.str()), "replace", {{Value(bound[0]->str()), Value(bound[1]->str())}, {}});
}

Value string_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return value.is_text() ? value : evaluator.text(value.str());
}
Value safe_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return evaluator.text(value.str(), true);
}

Value format_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  if (!arguments.keyword.empty()) throw Problem{"values for `%s` in order", string_repr(arguments.keyword[0].first)};
  return percent_format(evaluator, value.str(), arguments.positional);
}

Value indent_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first"});
  const std::string indention(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 4), 0, 100000)), ' ');
  const std::string text = text_of(value, "the indented text") + "\n";
  std::string out = bound.flag(1, false) ? indention : "";
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) {
      out += '\n';
      if (!line.empty()) out += indention;
    }
    evaluator.charge(line.size() + (first ? 0 : indention.size()));
    out += line;
    first = false;
  }
  return Value(std::move(out), value.markup());
}

// ---- numbers

std::optional<double> parsed(const Value& value) {
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  if (value.is_number()) return value.real();
  if (!value.is_text()) return std::nullopt;
  std::string_view text = strip(value.text(), true, true);
  if (text.find('_') != std::string_view::npos) throw Problem{"a number without `_`", string_repr(text)};
  if (text.starts_with('+')) text.remove_prefix(1);
  double out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return out;
}

Value int_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound none("int", arguments, {});
  if (value.is_integral()) return Value(value.integer());
  if (value.is_text()) {
    const std::string_view text = strip(value.text(), true, true);
    std::int64_t out = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
    if (read.ec == std::errc{} && read.ptr == text.data() + text.size()) return Value(out);
  }
  const auto real = parsed(value);
  if (!real || !std::isfinite(*real)) return Value(0);
  if (std::abs(*real) >= 9.2e18) throw Problem{"integers within 64 bits", "a larger result"};
  return Value(static_cast<std::int64_t>(*real));
}

Value float_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound none("float", arguments, {});
  return Value(parsed(value).value_or(0.0));
}

// ---- lists, dicts and what else is walked over

Value generator(Evaluator& evaluator, Values items) {
  evaluator.charge(items.size() * sizeof(Value));
  return Value(ObjectPtr(std::make_shared<Iterable>("generator", std::move(items))));
}

// The item's member that `attribute=` names; a path ("a.b") is no part of any published template.
Value member(Evaluator& evaluator, const Value& item, const Value& name) {
  if (text_of(name, "an attribute's name").find_first_of(".,") != std::string::npos) {
    throw Problem{"the name of one attribute", string_repr(name.text())};
  }
  return evaluator.item(item, name);
}

// What sort, unique, min and max compare: strings in lower case.
Value folded(Evaluator& evaluator, const Value& value) {
  evaluator.step_over(value);
  return value.is_text() ? Value(to_lower(value.text())) : value;
}

// sorted(items, key): stable. An exception inside a comparison leaves the items whole.
Values sorted(Evaluator& evaluator, const Values& items, const Values& keys) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    evaluator.step_over(keys[a]);
    return compare(keys[a], keys[b], "<") == -1;
  });
  Values out;
  out.reserve(items.size());
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"attribute"}, 0, 1);
  const Values items = evaluator.iterate(value);
  Values keys;
  for (const Value& item : items)
    keys.push_back(folded(evaluator, bound[0] ? member(evaluator, item, *bound[0]) : item));
  return evaluator.list(sorted(evaluator, items, keys));
}

Value dictsort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound none("dictsort", arguments, {});
  if (!value.is_dict()) throw Problem{"a dict to sort", cat("a ", value.type_name())};
  Values items, keys;
  for (const auto& [name, item] : value.dict().entries) {
    items.push_back(Value::tuple({name, item}));
    keys.push_back(folded(evaluator, name));
  }
  return evaluator.list(sorted(evaluator, items, keys));
}

Value unique_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound none("unique", arguments, {});
  std::unordered_set<std::string> seen;
  Values out;
  for (Value& item : evaluator.iterate(value)) {
    if (seen.insert(hash_key(folded(evaluator, item))).second) out.push_back(std::move(item));
  }
  return generator(evaluator, std::move(out));
}

template <int wanted>
Value extreme_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound none(wanted < 0 ? "min" : "max", arguments, {});
  const Values items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined({}, {}, "No aggregated item, sequence was empty.");
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const char* symbol = wanted < 0 ? "<" : ">";
    if (compare(folded(evaluator, items[i]), folded(evaluator, items[best]), symbol) == wanted) best = i;
  }
  return items[best];
}

Value map_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  Values out;
  if (!value.truthy()) return generator(evaluator, {});
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute"});
    if (!bound[0]) throw Problem{"the name of a filter or an attribute for map", "none"};
    for (const Value& item : evaluator.iterate(value)) out.push_back(member(evaluator, item, *bound[0]));
    return generator(evaluator, std::move(out));
  }
  const std::string name = text_of(arguments.positional[0], "the filter's name");
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : evaluator.iterate(value)) out.push_back(call_filter(evaluator, name, item, rest));
  return generator(evaluator, std::move(out));
}

template <bool keep, bool by_attribute>
Value select_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  if (!value.truthy()) return generator(evaluator, {});
  Arguments rest = arguments;
  std::optional<Value> name;
  if (by_attribute) {
    if (rest.positional.empty()) throw Problem{"the name of an attribute", "none"};
    name = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    test = text_of(rest.positional[0], "the test's name");
    rest.positional.erase(rest.positional.begin());
  }
  Values out;
  for (Value& item : evaluator.iterate(value)) {
    evaluator.step();
    const Value tested = name ? member(evaluator, item, *name) : item;
    const bool passes = test ? call_test(evaluator, *test, tested, rest) : tested.truthy();
    if (passes == keep) out.push_back(std::move(item));
  }
  return generator(evaluator, std::move(out));
}

Value first_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  Value out;
  if (auto* iterator = value.as<Iterable>(); iterator && iterator->is_generator()) {
    if (iterator->next(out)) return out;
  } else if (value.is_list() && !value.items().empty()) {
    return value.items().front();
  } else {
    Values items = evaluator.iterate(value);
    if (!items.empty()) return std::move(items.front());
  }
  return Value::undefined({}, {}, "No first item, sequence was empty.");
}

Value last_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (const auto* iterator = value.as<Iterable>(); iterator && iterator->is_generator())
    throw Problem{"a sequence", "a generator; `|list` makes one of it"};
  if (value.is_list() && !value.items().empty()) return value.items().back();
  Values items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined({}, {}, "No last item, sequence was empty.");
  return std::move(items.back());
}

Value join_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d"});
  const std::string separator = bound[0] ? bound[0]->str() : "";
  std::string out;
  bool first = true;
  for (const Value& item : evaluator.iterate(value)) {
    if (!first) out += separator;
    first = false;
    const std::size_t before = out.size();
    out += item.str();
    evaluator.charge(out.size() - before + separator.size());
  }
  return Value(std::move(out));
}

Value items_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_undefined()) return generator(evaluator, {});
  if (!value.is_dict()) throw Problem{"a dict", cat("a ", value.type_name())};
  Values out;
  for (const auto& [key, item] : value.dict().entries) out.push_back(Value::tuple({key, item}));
  return generator(evaluator, std::move(out));
}

Value default_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replaced = value.is_undefined() || (bound.flag(1, false) && !value.truthy());
  return !replaced ? value : bound[0] ? *bound[0] : Value("");
}

Value list_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  return evaluator.list(evaluator.iterate(value));
}

Value length_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_text()) evaluator.step(value.text().size() / 64);
  return Value(length_of(value));
}

const std::map<std::string_view, Filter>& filter_table() {
  static const std::map<std::string_view, Filter> table{{"lower", lower_filter},
                                                        {"upper", upper_filter},
                                                        {"capitalize", capitalize_filter},
                                                        {"title", title_filter},
                                                        {"trim", trim_filter},
                                                        {"replace", replace_filter},
                                                        {"string", string_filter},
                                                        {"safe", safe_filter},
                                                        {"format", format_filter},
                                                        {"indent", indent_filter},
                                                        {"tojson", to_json},
                                                        {"int", int_filter},
                                                        {"float", float_filter},
                                                        {"sort", sort_filter},
                                                        {"dictsort", dictsort_filter},
                                                        {"unique", unique_filter},
                                                        {"min", extreme_filter<-1>},
                                                        {"max", extreme_filter<1>},
                                                        {"map", map_filter},
                                                        {"select", select_filter<true, false>},
                                                        {"reject", select_filter<false, false>},
                                                        {"selectattr", select_filter<true, true>},
                                                        {"rejectattr", select_filter<false, true>},
                                                        {"first", first_filter},
                                                        {"last", last_filter},
                                                        {"join", join_filter},
                                                        {"items", items_filter},
                                                        {"default", default_filter},
                                                        {"d", default_filter},
                                                        {"list", list_filter},
                                                        {"length", length_filter},
                                                        {"count", length_filter}};
  return table;
}

}  // namespace

bool has_filter(std::string_view name) { return filter_table().contains(name); }

Value call_filter(Evaluator& evaluator, std::string_view name, const Value& operand, const Arguments& arguments) {
  const auto found = filter_table().find(name);
  if (found == filter_table().end()) throw Problem{"a filter that chat templates use", cat("`", name, "`")};
  evaluator.step_over(operand);
  for (const Value& value : arguments.positional) evaluator.step_over(value);
  return found->second(evaluator, operand, arguments);
}

}  // namespace tern::jinja
