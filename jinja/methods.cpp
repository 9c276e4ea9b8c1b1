// Python's methods of str and dict that chat templates call.
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

template <bool at_end>
Value affix_method(Evaluator&, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "endswith" : "startswith", arguments, {"affix"}, 1);
  return Value(at_end ? self.text().ends_with(bound.text(0)) : self.text().starts_with(bound.text(0)));
}

Value replace_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new"}, 2);
  const std::string &text = self.text(), &old = bound.text(0), &fresh = bound.text(1);
  if (old.empty()) throw Problem{"text to replace", "an empty string"};
  std::string out;
  std::size_t at = 0;
  evaluator.step(text.size() / 64);
  for (std::size_t found = 0; (found = text.find(old, at)) != std::string::npos; at = found + old.size()) {
    out.append(text, at, found - at);
    out += fresh;
    evaluator.charge(found - at + fresh.size());
  }
  out.append(text, at, std::string::npos);
  return evaluator.text(std::move(out), self.markup());
}

template <bool from_right>
Value split_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"}, 1);
  const std::int64_t limit = bound.integer(1, -1);
  const std::string &text = self.text(), &separator = bound.text(0);
  evaluator.charge(text.size());
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

Value format_method(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  if (!arguments.keyword.empty()) throw Problem{"values for `{}` in order", string_repr(arguments.keyword[0].first)};
  return evaluator.text(brace_format(evaluator, self.text(), arguments.positional), self.markup());
}

Value dict_get(Evaluator&, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  (void)hash_key(*bound[0]);
  const Value* found = self.dict().find(*bound[0]);
  return found ? *found : bound[1] ? *bound[1] : Value();
}

enum class View { keys, values, items };
template <View view>
Value dict_view(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  static constexpr const char* types[] = {"dict_keys", "dict_values", "dict_items"};
  const char* type = types[static_cast<int>(view)];
  const Bound none(type, arguments, {});
  Values items;
  for (const auto& [key, value] : self.dict().entries) {
    items.push_back(view == View::keys ? key : view == View::values ? value : Value::tuple({key, value}));
  }
  evaluator.charge(items.size() * (sizeof(List) + 3 * sizeof(Value)));
  return Value(ObjectPtr(std::make_shared<Iterable>(type, std::move(items))));
}

using Table = std::map<std::string_view, Method>;

const Table& text_methods() {
  static const Table table{{"lower", mapped<to_lower>},
                           {"upper", mapped<to_upper>},
                           {"title", mapped<to_title>},
                           {"capitalize", mapped<to_capitalized>},
                           {"strip", strip_method<true, true>},
                           {"lstrip", strip_method<true, false>},
                           {"rstrip", strip_method<false, true>},
                           {"startswith", affix_method<false>},
                           {"endswith", affix_method<true>},
                           {"replace", replace_method},
                           {"split", split_method<false>},
                           {"rsplit", split_method<true>},
                           {"join", join_method},
                           {"format", format_method}};
  return table;
}

const Table& dict_methods() {
  static const Table table{{"get", dict_get},
                           {"keys", dict_view<View::keys>},
                           {"values", dict_view<View::values>},
                           {"items", dict_view<View::items>}};
  return table;
}

using Names = std::initializer_list<std::string_view>;
bool among(Names names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

// Methods that change their object are there in Python, but the sandbox denies them.
bool denied(const Value& self, std::string_view name) {
  if (self.is_dict()) return among({"clear", "pop", "popitem", "setdefault", "update"}, name);
  return self.is_list() && !self.list().tuple &&
         among({"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}, name);
}

// Python's other methods. Taken for an absent attribute, one would pass `is defined` silently.
bool unused(const Value& self, std::string_view name) {
  if (self.is_text()) {
    return among({"casefold",   "center",     "count",        "encode",       "expandtabs", "find",    "format_map",
                  "index",      "isalnum",    "isalpha",      "isascii",      "isdecimal",  "isdigit", "isidentifier",
                  "islower",    "isnumeric",  "isprintable",  "isspace",      "istitle",    "isupper", "ljust",
                  "maketrans",  "partition",  "removeprefix", "removesuffix", "rfind",      "rindex",  "rjust",
                  "rpartition", "splitlines", "swapcase",     "translate",    "zfill"},
                 name);
  }
  if (self.is_list()) return among({"copy", "count", "index"}, name);
  return self.is_dict() && among({"copy", "fromkeys"}, name);
}

}  // namespace

bool find_method(const Value& self, std::string_view name, Value& out) {
  if (denied(self, name)) {
    out = Value::undefined(
        std::string(name), {},
        cat("access to attribute ", string_repr(name), " of ", string_repr(self.type_name()), " object is unsafe."));
    return true;
  }
  if (unused(self, name)) {
    throw Problem{"a method that chat templates use", cat("`", name, "` of a ", self.type_name())};
  }
  const Table* table = self.is_text() ? &text_methods() : self.is_dict() ? &dict_methods() : nullptr;
  const auto found = table ? table->find(name) : Table::const_iterator{};
  if (!table || found == table->end()) return false;
  out = Value(ObjectPtr(std::make_shared<Builtin>(
      cat("method ", name, " of ", self.type_name(), " object"),
      [self, method = found->second](Evaluator& evaluator, const Arguments& arguments) {
        return method(evaluator, self, arguments);
      },
      self.depth() + 1)));
  return true;
}

}  // namespace tern::jinja
