// Python's methods of str, list, tuple and dict, less those that change their object.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

using Method = Value (*)(Evaluator&, const Value& self, const Arguments&);

template <std::string (*change)(std::string_view)>
Value mapped(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound none("the method", arguments, {});
  evaluator.charge(self.text().size());
  return evaluator.text(change(self.text()), self.markup());
}

template <bool left, bool right>
Value strip_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  const std::string& text = self.text();
  evaluator.step(text.size() / 64);
  return evaluator.text(
      std::string(bound.given(0) ? strip(text, bound.text(0), left, right) : strip(text, left, right)), self.markup());
}

// [start, end) in bytes of the part of `text` that startswith, find and the like look at.
struct Window {
  std::size_t begin = 0, end = 0;
  bool empty = false;  // start lies behind end: nothing is found there, not even ""
};

Window window(const std::string& text, const Bound& bound, std::size_t first) {
  if (!bound.given(first) && !bound.given(first + 1)) return {0, text.size()};
  const auto length = static_cast<std::int64_t>(code_point_count(text));
  const auto clamp = [&](std::int64_t at) {
    return at < 0 ? std::max<std::int64_t>(at < -length ? 0 : at + length, 0) : at;
  };
  const std::int64_t begin = bound.given(first) ? clamp(bound.integer(first, 0)) : 0;
  const std::int64_t end = bound.given(first + 1) ? std::min(clamp(bound.integer(first + 1, 0)), length) : length;
  if (begin > end) return {0, 0, true};
  return {byte_offset(text, static_cast<std::size_t>(begin)), byte_offset(text, static_cast<std::size_t>(end))};
}

template <bool at_end>
Value affix_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  const Window part = window(self.text(), bound, 1);
  const std::string_view text = std::string_view(self.text()).substr(part.begin, part.end - part.begin);
  const Values any = bound[0]->is_list() && bound[0]->list().tuple ? bound[0]->items() : Values{*bound[0]};
  for (const Value& affix : any) {
    evaluator.step();
    const std::string& wanted = text_of(affix, "the start or end to look for");
    if (!part.empty && (at_end ? text.ends_with(wanted) : text.starts_with(wanted))) return Value(true);
  }
  return Value(false);
}

template <bool from_right, bool required>
Value find_method_of_text(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = bound.text(0);
  const Window part = window(self.text(), bound, 1);
  const std::string_view text = std::string_view(self.text()).substr(part.begin, part.end - part.begin);
  evaluator.step(self.text().size() / 64);
  const std::size_t at = part.empty ? std::string::npos : from_right ? text.rfind(wanted) : text.find(wanted);
  if (at != std::string::npos) return Value(code_point_count(std::string_view(self.text()).substr(0, part.begin + at)));
  if (required) throw Problem{"a substring that is there", string_repr(wanted)};
  return Value(-1);
}

Value count_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = bound.text(0);
  const Window part = window(self.text(), bound, 1);
  const std::string_view text = std::string_view(self.text()).substr(part.begin, part.end - part.begin);
  evaluator.charge(text.size());
  if (part.empty) return Value(0);
  if (wanted.empty()) return Value(code_point_count(text) + 1);
  std::int64_t count = 0;
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size()))
    ++count;
  return Value(count);
}

Value replace_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::string &text = self.text(), &old = bound.text(0), &fresh = bound.text(1);
  std::int64_t left = bound.integer(2, -1);
  std::string out;
  std::size_t at = 0;
  if (old.empty()) {
    const auto points = code_points(text);
    evaluator.charge(text.size() + (points.size() + 1) * fresh.size());
    for (std::size_t i = 0; i <= points.size(); ++i) {
      if (left != 0) out += fresh;
      left -= left > 0;
      if (i < points.size()) out += points[i];
    }
    return Value(std::move(out), self.markup());
  }
  evaluator.step(text.size() / 64);
  for (std::size_t found = 0; left != 0 && (found = text.find(old, at)) != std::string::npos; at = found + old.size()) {
    out.append(text, at, found - at);
    out += fresh;
    left -= left > 0;
    evaluator.charge(found - at + fresh.size());
  }
  out.append(text, at, std::string::npos);
  return evaluator.text(std::move(out), self.markup());
}

// split without a separator: by runs of white space, from the left or the right.
Values split_space(std::string_view text, std::int64_t limit, bool from_right) {
  Values out;
  text = strip(text, !from_right, from_right);
  while (!(text = strip(text, true, true).size() ? text : std::string_view()).empty()) {
    if (limit == static_cast<std::int64_t>(out.size())) {
      out.emplace_back(text);
      break;
    }
    std::size_t cut = from_right ? 0 : text.size(), size = 0, rest = cut;
    for (std::size_t at = 0; at < text.size(); at += size) {
      if (!is_space(code_point_at(text, at, size))) continue;
      cut = from_right ? at + size : at;
      rest = at;
      if (!from_right) break;
    }
    if (from_right) {
      out.emplace_back(text.substr(cut));
      text = strip(text.substr(0, cut == 0 ? 0 : rest), false, true);
    } else {
      out.emplace_back(text.substr(0, cut));
      text = strip(text.substr(cut), true, false);
    }
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

template <bool from_right>
Value split_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const std::int64_t limit = bound.integer(1, -1);
  const std::string& text = self.text();
  evaluator.charge(text.size());
  if (!bound.given(0)) return evaluator.list(split_space(text, limit < 0 ? -1 : limit, from_right));
  const std::string& separator = bound.text(0);
  if (separator.empty()) throw Problem{"a separator to split at", "an empty string"};
  Values out;
  std::size_t begin = 0, end = text.size();
  while (limit < 0 || static_cast<std::int64_t>(out.size()) < limit) {
    if (from_right) {
      const std::size_t at = end < separator.size() ? std::string::npos : text.rfind(separator, end - separator.size());
      if (at == std::string::npos) break;
      out.push_back(evaluator.text(text.substr(at + separator.size(), end - at - separator.size())));
      end = at;
    } else {
      const std::size_t at = text.find(separator, begin);
      if (at == std::string::npos) break;
      out.push_back(evaluator.text(text.substr(begin, at - begin)));
      begin = at + separator.size();
    }
  }
  out.push_back(evaluator.text(text.substr(begin, end - begin)));
  if (from_right) std::reverse(out.begin(), out.end());
  return evaluator.list(std::move(out));
}

Value splitlines_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  Values out;
  for (const std::string_view line : split_lines(self.text(), bound.flag(0, false))) {
    out.push_back(evaluator.text(std::string(line)));
  }
  return evaluator.list(std::move(out));
}

template <bool from_right>
Value partition_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string &text = self.text(), &separator = bound.text(0);
  if (separator.empty()) throw Problem{"a separator to split at", "an empty string"};
  evaluator.charge(text.size());
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos) {
    return from_right ? Value::tuple({Value(""), Value(""), self}) : Value::tuple({self, Value(""), Value("")});
  }
  return Value::tuple({Value(text.substr(0, at)), Value(separator), Value(text.substr(at + separator.size()))});
}

template <bool suffix>
Value remove_affix_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("removeprefix", arguments, {"affix"}, 1);
  const std::string &text = self.text(), &affix = bound.text(0);
  if (!(suffix ? text.ends_with(affix) : text.starts_with(affix))) return self;
  return evaluator.text(suffix ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

Value join_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  std::string out;
  bool first = true;
  for (const Value& item : evaluator.iterate(*bound[0])) {
    const std::string& part = text_of(item, "an item to join");
    evaluator.charge(part.size() + self.text().size());
    if (!first) out += self.text();
    first = false;
    out += part;
  }
  return Value(std::move(out));
}

// Padding of ljust, rjust, center and zfill: how many fill characters left and right.
Value padded(Evaluator& evaluator, const Value& self, std::int64_t width, const std::string& fill, int where) {
  if (code_point_count(fill) != 1) throw Problem{"one character to fill with", string_repr(fill)};
  const auto length = static_cast<std::int64_t>(code_point_count(self.text()));
  if (width <= length) return self;
  if (width > (std::int64_t{1} << 30)) throw Problem{"a width that fits in memory", cat(width)};
  const std::int64_t missing = width - length;
  // CPython's centre: the odd one goes left where the width is odd.
  const std::int64_t left = where < 0 ? 0 : where > 0 ? missing : missing / 2 + (missing & width & 1);
  evaluator.charge(static_cast<std::size_t>(missing) * fill.size() + self.text().size());
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return Value(std::move(out));
}

template <int where>
Value pad_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width", "fillchar"}, 1);
  return padded(evaluator, self, bound.integer(0, 0), bound[1] ? bound.text(1) : " ", where);
}

Value zfill_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const std::int64_t width = bound.integer(0, 0);
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return padded(evaluator, self, width, "0", 1);
  const Value digits = padded(evaluator, Value(text.substr(1)), std::max<std::int64_t>(width, 1) - 1, "0", 1);
  return Value(text.substr(0, 1) + digits.text());
}

Value expandtabs_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"});
  const std::int64_t tab = std::clamp<std::int64_t>(bound.integer(0, 8), 0, 1000);
  std::string out;
  std::int64_t column = 0;
  for (const std::string_view c : code_points(self.text())) {
    if (c == "\t") {
      const std::int64_t spaces = tab ? tab - column % tab : 0;
      evaluator.charge(static_cast<std::size_t>(spaces));
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      out += c;
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return evaluator.text(std::move(out));
}

template <CharacterClass which>
Value all_in_class(Evaluator& evaluator, const Value& self, const Arguments&) {
  const std::string& text = self.text();
  evaluator.step(text.size() / 64);
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    if (!in_class(code_point_at(text, at, size), which)) return Value(false);
  }
  return Value(!text.empty());
}

Value isspace_method(Evaluator&, const Value& self, const Arguments&) {
  return Value(!self.text().empty() && strip(self.text(), true, true).empty());
}
Value isascii_method(Evaluator&, const Value& self, const Arguments&) {
  return Value(
      std::all_of(self.text().begin(), self.text().end(), [](char c) { return static_cast<signed char>(c) >= 0; }));
}
Value isprintable_method(Evaluator&, const Value& self, const Arguments&) {
  const std::string& text = self.text();
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    if (!is_printable(code_point_at(text, at, size))) return Value(false);
  }
  return Value(true);
}
Value isidentifier_method(Evaluator&, const Value& self, const Arguments&) {
  const std::string& text = self.text();
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const auto which = at ? CharacterClass::identifier : CharacterClass::identifier_start;
    if (!in_class(code_point_at(text, at, size), which)) return Value(false);
  }
  return Value(!text.empty());
}

Value islower_method(Evaluator& evaluator, const Value& self, const Arguments&) {
  return Value(call_test(evaluator, "lower", self, {}));
}
Value isupper_method(Evaluator& evaluator, const Value& self, const Arguments&) {
  return Value(call_test(evaluator, "upper", self, {}));
}
Value istitle_method(Evaluator& evaluator, const Value& self, const Arguments&) {
  evaluator.charge(self.text().size());
  return Value(to_title(self.text()) == self.text() && to_lower(self.text()) != to_upper(self.text()));
}

Value format_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  return evaluator.text(brace_format(evaluator, self.text(), arguments), self.markup());
}
Value format_map_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("format_map", arguments, {"mapping"}, 1);
  if (!bound[0]->is_dict()) throw Problem{"a dict for format_map", cat("a ", bound[0]->type_name())};
  Arguments given;
  for (const auto& [key, value] : bound[0]->dict().entries) given.keyword.emplace_back(key.str(), value);
  return evaluator.text(brace_format(evaluator, self.text(), given), self.markup());
}

// ---- lists, tuples, dicts

Value list_count(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  evaluator.step_over(self);
  return Value(std::count_if(self.items().begin(), self.items().end(),
                             [&](const Value& item) { return equal(item, *bound[0]); }));
}

Value list_index(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
  const auto length = static_cast<std::int64_t>(self.items().size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + length : at, 0, length); };
  const std::int64_t end = clamp(bound.integer(2, length));
  for (std::int64_t i = clamp(bound.integer(1, 0)); i < end; ++i) {
    evaluator.step_over(self.items()[static_cast<std::size_t>(i)]);
    if (equal(self.items()[static_cast<std::size_t>(i)], *bound[0])) return Value(i);
  }
  throw Problem{"a value that is in the list", bound[0]->repr()};
}

Value list_copy(Evaluator&, const Value& self, const Arguments&) { return self; }

Value dict_get(Evaluator&, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  (void)hash_key(*bound[0]);
  const Value* found = self.dict().find(*bound[0]);
  return found ? *found : bound[1] ? *bound[1] : Value();
}

template <const char* const& type>
Value dict_view(Evaluator&, const Value& self, const Arguments& arguments) {
  const Bound none(type, arguments, {});
  return Value(ObjectPtr(std::make_shared<DictView>(std::get<DictPtr>(self.rep()), type)));
}
constexpr const char* keys_type = "dict_keys";
constexpr const char* values_type = "dict_values";
constexpr const char* items_type = "dict_items";

using Table = std::map<std::string_view, Method>;

const Table& text_methods() {
  static const Table table{{"lower", mapped<to_lower>},
                           {"upper", mapped<to_upper>},
                           {"casefold", mapped<to_lower>},
                           {"title", mapped<to_title>},
                           {"capitalize", mapped<to_capitalized>},
                           {"swapcase", mapped<swap_case>},
                           {"strip", strip_method<true, true>},
                           {"lstrip", strip_method<true, false>},
                           {"rstrip", strip_method<false, true>},
                           {"startswith", affix_method<false>},
                           {"endswith", affix_method<true>},
                           {"find", find_method_of_text<false, false>},
                           {"rfind", find_method_of_text<true, false>},
                           {"index", find_method_of_text<false, true>},
                           {"rindex", find_method_of_text<true, true>},
                           {"count", count_method},
                           {"replace", replace_method},
                           {"split", split_method<false>},
                           {"rsplit", split_method<true>},
                           {"splitlines", splitlines_method},
                           {"partition", partition_method<false>},
                           {"rpartition", partition_method<true>},
                           {"removeprefix", remove_affix_method<false>},
                           {"removesuffix", remove_affix_method<true>},
                           {"join", join_method},
                           {"ljust", pad_method<-1>},
                           {"rjust", pad_method<1>},
                           {"center", pad_method<0>},
                           {"zfill", zfill_method},
                           {"expandtabs", expandtabs_method},
                           {"isalpha", all_in_class<CharacterClass::alpha>},
                           {"isalnum", all_in_class<CharacterClass::alnum>},
                           {"isdecimal", all_in_class<CharacterClass::decimal>},
                           {"isdigit", all_in_class<CharacterClass::digit>},
                           {"isnumeric", all_in_class<CharacterClass::numeric>},
                           {"isspace", isspace_method},
                           {"isascii", isascii_method},
                           {"isprintable", isprintable_method},
                           {"isidentifier", isidentifier_method},
                           {"islower", islower_method},
                           {"isupper", isupper_method},
                           {"istitle", istitle_method},
                           {"format", format_method},
                           {"format_map", format_map_method}};
  return table;
}

const Table& list_methods() {
  static const Table table{{"count", list_count}, {"index", list_index}, {"copy", list_copy}};
  return table;
}

const Table& dict_methods() {
  static const Table table{{"get", dict_get},
                           {"keys", dict_view<keys_type>},
                           {"values", dict_view<values_type>},
                           {"items", dict_view<items_type>},
                           {"copy", list_copy}};
  return table;
}

// Methods that change their object are there in Python, but the sandbox denies them.
bool denied(const Value& self, std::string_view name) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self.is_dict()) return any({"clear", "pop", "popitem", "setdefault", "update"});
  if (self.is_list() && !self.list().tuple) {
    return any({"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return false;
}

}  // namespace

bool find_method(const Value& self, std::string_view name, Value& out) {
  const Table* table = self.is_text()   ? &text_methods()
                       : self.is_list() ? &list_methods()
                       : self.is_dict() ? &dict_methods()
                                        : nullptr;
  if (!table) return false;
  if (denied(self, name)) {
    out = Value::undefined(
        std::string(name), {},
        cat("access to attribute ", string_repr(name), " of ", string_repr(self.type_name()), " object is unsafe."));
    return true;
  }
  const auto found = table->find(name);
  if (found == table->end()) return false;
  out = Value(ObjectPtr(std::make_shared<Builtin>(
      cat("method ", name, " of ", self.type_name(), " object"),
      [self, method = found->second](Evaluator& evaluator, const Arguments& arguments) {
        return method(evaluator, self, arguments);
      },
      self.depth() + 1)));
  return true;
}

}  // namespace tern::jinja
