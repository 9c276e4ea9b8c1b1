// Filters over lists, dicts and iterators.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

Value generator(Evaluator& evaluator, Values items) {
  evaluator.charge(items.size() * sizeof(Value));
  return Value(ObjectPtr(std::make_shared<Iterator>(std::move(items))));
}

// "a.b.0" as its parts: integers where they are digits.
Values path_of(const Value& attribute) {
  if (!attribute.is_text()) return {attribute};
  Values parts;
  for (const std::string_view part : split(attribute.text(), '.')) {
    const bool digits = !part.empty() && part.size() < 18 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      std::int64_t number = 0;
      for (const char c : part) number = number * 10 + (c - '0');
      parts.emplace_back(number);
    } else {
      parts.emplace_back(part);
    }
  }
  return parts;
}

Value along(Evaluator& evaluator, Value item, const Values& path, const Value* otherwise = nullptr) {
  for (const Value& part : path) {
    item = evaluator.item(item, part);
    if (otherwise && !otherwise->is_none() && item.is_undefined()) item = *otherwise;
  }
  return item;
}

// The key that sort, unique, min, max and groupby compare: an attribute (or several), lower case unless told otherwise.
class KeyOf {
 public:
  KeyOf(const Value* attribute, bool case_sensitive, bool several) : case_sensitive_(case_sensitive) {
    if (!attribute || attribute->is_none()) return;
    if (several && attribute->is_text()) {
      for (const std::string_view part : split(attribute->text(), ',')) paths_.push_back(path_of(Value(part)));
    } else {
      paths_.push_back(path_of(*attribute));
    }
  }

  Value operator()(Evaluator& evaluator, const Value& item, const Value* otherwise = nullptr) const {
    evaluator.step_over(item);
    if (paths_.empty()) return folded(item);
    if (paths_.size() == 1) return folded(along(evaluator, item, paths_.front(), otherwise));
    Values keys;
    for (const Values& path : paths_) keys.push_back(folded(along(evaluator, item, path, otherwise)));
    return Value::list(std::move(keys));
  }

 private:
  [[nodiscard]] Value folded(const Value& value) const {
    return value.is_text() && !case_sensitive_ ? Value(to_lower(value.text())) : value;
  }
  std::vector<Values> paths_;
  bool case_sensitive_;
};

// sorted(items, key, reverse): stable both ways. An exception inside a comparison leaves the items whole.
Values sorted(Evaluator& evaluator, const Values& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    evaluator.step_over(keys[a]);
    return compare(keys[reverse ? b : a], keys[reverse ? a : b], "<") == -1;
  });
  Values out;
  out.reserve(items.size());
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const KeyOf key(bound[2], bound.flag(1, false), true);
  const Values items = evaluator.iterate(value);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(key(evaluator, item));
  return evaluator.list(sorted(evaluator, items, keys, bound.flag(0, false)));
}

Value dictsort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound[1] ? bound.text(1) : "key";
  if (by != "key" && by != "value") throw Problem{"\"key\" or \"value\" to sort by", string_repr(by)};
  if (!value.is_dict()) throw Problem{"a dict to sort", cat("a ", value.type_name())};
  const KeyOf key(nullptr, bound.flag(0, false), false);
  Values items;
  std::vector<Value> keys;
  for (const auto& [name, item] : value.dict().entries) {
    items.push_back(Value::tuple({name, item}));
    keys.push_back(key(evaluator, by == "key" ? name : item));
  }
  return evaluator.list(sorted(evaluator, items, keys, bound.flag(2, false)));
}

Value unique_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const KeyOf key(bound[1], bound.flag(0, false), false);
  std::unordered_set<std::string> seen;
  Values out;
  for (Value& item : evaluator.iterate(value)) {
    if (seen.insert(hash_key(key(evaluator, item))).second) out.push_back(std::move(item));
  }
  return generator(evaluator, std::move(out));
}

template <int wanted>
Value extreme_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound(wanted < 0 ? "min" : "max", arguments, {"case_sensitive", "attribute"});
  const KeyOf key(bound[1], bound.flag(0, false), false);
  const Values items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined({}, {}, "No aggregated item, sequence was empty.");
  std::size_t best = 0;
  Value best_key = key(evaluator, items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value other = key(evaluator, items[i]);
    if (compare(other, best_key, wanted < 0 ? "<" : ">") == wanted) {
      best = i;
      best_key = std::move(other);
    }
  }
  return items[best];
}

// groupby's result: a tuple whose parts also have names.
class Group final : public Object {
 public:
  explicit Group(Value pair) : Object(pair.depth() + 1), pair_(std::move(pair)) {}
  [[nodiscard]] std::string type_name() const override { return "_GroupTuple"; }
  [[nodiscard]] std::string repr() const override { return pair_.repr(); }
  [[nodiscard]] bool attribute(Evaluator&, std::string_view name, Value& out) override {
    if (name != "grouper" && name != "list") return false;
    out = pair_.items()[name == "list"];
    return true;
  }
  [[nodiscard]] bool iterate(Values& out) override {
    out = pair_.items();
    return true;
  }
  [[nodiscard]] std::int64_t length() const override { return 2; }
  [[nodiscard]] bool item(std::int64_t index, Value& out) const override {
    out = pair_.items()[static_cast<std::size_t>(index)];
    return true;
  }

 private:
  Value pair_;
};

Value groupby_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.flag(2, false);
  const KeyOf key(bound[0], case_sensitive, false), exact(bound[0], true, false);
  const Values items = evaluator.iterate(value);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(key(evaluator, item, bound[1]));
  const Values ordered = sorted(evaluator, items, keys, false);
  Values groups;
  for (std::size_t i = 0; i < ordered.size();) {
    const Value group = key(evaluator, ordered[i], bound[1]);
    const Value shown = case_sensitive ? group : exact(evaluator, ordered[i], bound[1]);
    Values members;
    for (; i < ordered.size() && equal(key(evaluator, ordered[i], bound[1]), group); ++i) members.push_back(ordered[i]);
    if (members.empty()) members.push_back(ordered[i++]);  // NaN equals nothing, not even itself
    groups.emplace_back(ObjectPtr(std::make_shared<Group>(Value::tuple({shown, evaluator.list(std::move(members))}))));
  }
  return evaluator.list(std::move(groups));
}

Value map_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  Values out;
  if (!value.truthy()) return generator(evaluator, {});
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    if (!bound[0]) throw Problem{"the name of a filter or an attribute for map", "none"};
    const Values path = path_of(*bound[0]);
    for (Value& item : evaluator.iterate(value)) out.push_back(along(evaluator, std::move(item), path, bound[1]));
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
  std::optional<Values> path;
  if (by_attribute) {
    if (rest.positional.empty()) throw Problem{"the name of an attribute", "none"};
    path = path_of(rest.positional[0]);
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
    const Value tested = path ? along(evaluator, item, *path) : item;
    const bool passes = test ? call_test(evaluator, *test, tested, rest) : tested.truthy();
    if (passes == keep) out.push_back(std::move(item));
  }
  return generator(evaluator, std::move(out));
}

Value first_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  Value out;
  if (auto* iterator = value.as<Iterator>()) {
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
  if (value.as<Iterator>()) throw Problem{"a sequence", "a generator; `|list` makes one of it"};
  if (value.is_list() && !value.items().empty()) return value.items().back();
  Values items = evaluator.iterate(value);
  if (items.empty()) return Value::undefined({}, {}, "No last item, sequence was empty.");
  return std::move(items.back());
}

Value reverse_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_text()) {
    std::string out;
    const auto points = code_points(value.text());
    evaluator.charge(points.size());
    for (auto at = points.rbegin(); at != points.rend(); ++at) out += *at;
    return evaluator.text(std::move(out));
  }
  Values items = evaluator.iterate(value);
  std::reverse(items.begin(), items.end());
  return Value(ObjectPtr(std::make_shared<Iterator>(std::move(items), "list_reverseiterator")));
}

Value join_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound[0] ? bound[0]->str() : "";
  const Values path = bound.given(1) ? path_of(*bound[1]) : Values{};
  std::string out;
  bool first = true;
  for (Value& item : evaluator.iterate(value)) {
    if (!first) out += separator;
    first = false;
    const std::size_t before = out.size();
    out += along(evaluator, std::move(item), path).str();
    evaluator.charge(out.size() - before + separator.size());
  }
  return Value(std::move(out));
}

Value sum_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const Values path = bound.given(0) ? path_of(*bound[0]) : Values{};
  Value total = bound[1] ? *bound[1] : Value(0);
  if (total.is_text()) throw Problem{"numbers to sum; `|join` adds strings", "a string"};
  for (Value& item : evaluator.iterate(value)) {
    evaluator.step();
    total = binary(evaluator, BinaryOp::add, total, along(evaluator, std::move(item), path));
  }
  return total;
}

Value batch_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t count = bound.integer(0, 1);
  Values out, row;
  for (Value& item : evaluator.iterate(value)) {
    if (static_cast<std::int64_t>(row.size()) == count) out.push_back(evaluator.list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (bound.given(1)) {
      if (count > 1000000) throw Problem{"a batch of at most 1000000", cat(count)};
      while (static_cast<std::int64_t>(row.size()) < count) row.push_back(*bound[1]);
    }
    out.push_back(evaluator.list(std::move(row)));
  }
  return generator(evaluator, std::move(out));
}

Value slice_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t slices = bound.integer(0, 1);
  const Values items = evaluator.iterate(value);
  if (slices <= 0 || slices > 1000000) throw Problem{"1 to 1000000 slices", cat(slices)};
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t each = items.size() / count, longer = items.size() % count;
  Values out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    Values part(items.begin() + static_cast<std::ptrdiff_t>(at),
                items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (bound.given(1) && i >= longer) part.push_back(*bound[1]);
    out.push_back(evaluator.list(std::move(part)));
  }
  return generator(evaluator, std::move(out));
}

Value items_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_undefined()) return generator(evaluator, {});
  if (!value.is_dict()) throw Problem{"a dict", cat("a ", value.type_name())};
  Values out;
  for (const auto& [key, item] : value.dict().entries) out.push_back(Value::tuple({key, item}));
  return generator(evaluator, std::move(out));
}

Value attr_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  const std::string& name = bound.text(0);
  Value method;
  if (value.is_dict() && !find_method(value, name, method)) {
    return Value::undefined(name, value.type_name());  // |attr never looks among a dict's keys
  }
  return evaluator.attribute(value, name);
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

}  // namespace

std::vector<FilterRow> sequence_filters() {
  return {{"sort", sort_filter},
          {"dictsort", dictsort_filter},
          {"unique", unique_filter},
          {"min", extreme_filter<-1>},
          {"max", extreme_filter<1>},
          {"groupby", groupby_filter},
          {"map", map_filter},
          {"select", select_filter<true, false>},
          {"reject", select_filter<false, false>},
          {"selectattr", select_filter<true, true>},
          {"rejectattr", select_filter<false, true>},
          {"first", first_filter},
          {"last", last_filter},
          {"reverse", reverse_filter},
          {"join", join_filter},
          {"sum", sum_filter},
          {"batch", batch_filter},
          {"slice", slice_filter},
          {"items", items_filter},
          {"attr", attr_filter},
          {"default", default_filter},
          {"d", default_filter},
          {"list", list_filter},
          {"length", length_filter},
          {"count", length_filter}};
}

}  // namespace tern::jinja
