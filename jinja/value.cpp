#include "jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "base/strings.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

constexpr std::size_t indexed_from = 8;  // a dict with fewer entries is searched one by one

unsigned deepest(unsigned below) {
  if (below >= max_value_depth) {
    throw Problem{cat("values nested at most ", max_value_depth, " deep"), "deeper nesting"};
  }
  return below + 1;
}

std::size_t heavier(std::size_t weight, std::size_t more) {
  if (weight + more > max_value_weight) throw Problem{cat("values of at most ", max_value_weight, " parts"), "more"};
  return weight + more;
}

ListPtr make_list(Values items, bool tuple) {
  auto list = std::make_shared<List>();
  unsigned below = 0;
  for (const Value& item : items) {
    below = std::max(below, item.depth());
    list->weight = heavier(list->weight, item.weight());
  }
  list->depth = deepest(below);
  list->items = std::move(items);
  list->tuple = tuple;
  return list;
}

std::string repr_of(const List& list) {
  std::string out(1, list.tuple ? '(' : '[');
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i) out += ", ";
    out += list.items[i].repr();
  }
  if (list.tuple && list.items.size() == 1) out += ',';
  return out + (list.tuple ? ')' : ']');
}

std::string repr_of(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, value] : dict.entries) {
    if (out.size() > 1) out += ", ";
    out += key.repr() + ": " + value.repr();
  }
  return out + "}";
}

}  // namespace

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  if (owner.empty()) return cat(string_repr(name), " is undefined");
  return cat("'", owner, " object' has no attribute ", string_repr(name));
}

Value::Value(std::string text, bool markup) : rep_(std::make_shared<const Text>(Text{std::move(text), markup})) {}

Value Value::list(Values items) { return Value(make_list(std::move(items), false)); }
Value Value::tuple(Values items) { return Value(make_list(std::move(items), true)); }

Value Value::undefined(std::string name, std::string owner, std::string hint) {
  Value value;
  value.rep_ = std::make_shared<const Undefined>(Undefined{std::move(name), std::move(owner), std::move(hint)});
  return value;
}

std::int64_t Value::integer() const { return is_bool() ? std::get<bool>(rep_) : std::get<std::int64_t>(rep_); }
double Value::real() const { return is_float() ? std::get<double>(rep_) : static_cast<double>(integer()); }
const Values& Value::items() const { return list().items; }

bool Value::truthy() const {
  if (is_none() || is_undefined()) return false;
  if (is_integral()) return integer() != 0;
  if (is_float()) return real() != 0;
  if (is_text()) return !text().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return !dict().entries.empty();
  return object().truthy();
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return markup() ? "Markup" : "str";
  if (is_list()) return list().tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  return object().type_name();
}

std::string Value::str() const {
  if (is_text()) return text();
  if (is_undefined()) return {};
  return repr();
}

std::string Value::repr() const {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return integer() ? "True" : "False";
  if (is_int()) return cat(integer());
  if (is_float()) return float_repr(real());
  if (is_text()) return markup() ? cat("Markup(", string_repr(text()), ")") : string_repr(text());
  if (is_list()) return repr_of(list());
  if (is_dict()) return repr_of(dict());
  return object().repr();
}

unsigned Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth;
  if (is_object()) return object().depth();
  return 0;
}

std::size_t Value::weight() const {
  if (is_text()) return 1 + text().size() / 64;
  if (is_list()) return list().weight;
  if (is_dict()) return dict().weight;
  return 1;
}

const Value* Dict::find(const Value& key) const {
  if (index_.empty()) {
    for (const auto& entry : entries) {
      if (equal(entry.first, key)) return &entry.second;
    }
    return nullptr;
  }
  const auto found = index_.find(hash_key(key));
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::get(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(cat("s", key));
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& entry : entries) {
    if (entry.first.is_text() && entry.first.text() == key) return &entry.second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  std::string hash = hash_key(key);
  depth = std::max(depth, deepest(std::max(key.depth(), value.depth())));
  weight = heavier(weight, key.weight() + value.weight());
  std::size_t at = entries.size();
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries.size() && at == entries.size(); ++i) {
      if (equal(entries[i].first, key)) at = i;
    }
  } else if (const auto found = index_.find(hash); found != index_.end()) {
    at = found->second;
  }
  if (at < entries.size()) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (!index_.empty()) {
    index_.emplace(std::move(hash), at);
  } else if (entries.size() > indexed_from) {
    for (std::size_t i = 0; i < entries.size(); ++i) index_.emplace(hash_key(entries[i].first), i);
  }
}

Object::Object(unsigned depth) : depth_(depth) {
  if (depth > max_value_depth) {
    throw Problem{cat("values nested at most ", max_value_depth, " deep"), "deeper nesting"};
  }
}

std::string Object::repr() const { return cat("<", type_name(), ">"); }

Value Object::call(Evaluator&, const Arguments&) {
  throw std::logic_error(type_name() + " is called and is not callable");
}

namespace {
unsigned depth_over(const Values& items) {
  unsigned below = 0;
  for (const Value& item : items) below = std::max(below, item.depth());
  return below + 1;
}
}  // namespace

Iterable::Iterable(std::string type, Values items)
    : Object(depth_over(items)), type_(std::move(type)), items_(std::move(items)) {}

std::string Iterable::repr() const {
  if (is_generator()) return Object::repr();
  // A range prints its bounds in Python, which nobody has use for in a prompt.
  if (is_range()) throw Problem{"a value that can be printed", "a range; `|list` makes a list of it"};
  return cat(type_, "(", Value::list(items_).repr(), ")");
}

bool Iterable::iterate(Values& out) {
  out.insert(out.end(), items_.begin() + static_cast<std::ptrdiff_t>(at_), items_.end());
  if (is_generator()) at_ = items_.size();
  return true;
}

bool Iterable::next(Value& out) {
  if (at_ >= items_.size()) return false;
  out = items_[at_++];
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_text() || b.is_text()) return a.is_text() && b.is_text() && a.text() == b.text();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_list() && b.is_list()) {
    if (a.list().tuple != b.list().tuple || a.items().size() != b.items().size()) return false;
    for (std::size_t i = 0; i < a.items().size(); ++i) {
      if (!equal(a.items()[i], b.items()[i])) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().entries.size() != b.dict().entries.size()) return false;
    for (const auto& [key, value] : a.dict().entries) {
      const Value* other = b.dict().find(key);
      if (!other || !equal(value, *other)) return false;
    }
    return true;
  }
  if (const auto* left = a.as<Iterable>(), *right = b.as<Iterable>();
      left && right && left->is_range() && right->is_range()) {
    return left->items().size() == right->items().size() &&
           std::equal(left->items().begin(), left->items().end(), right->items().begin(), equal);
  }
  return a.is_object() && b.is_object() && &a.object() == &b.object();
}

int compare(const Value& a, const Value& b, const char* symbol) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    const double left = a.real(), right = b.real();
    if (std::isnan(left) || std::isnan(right)) return 2;
    return left < right ? -1 : left > right;
  }
  if (a.is_text() && b.is_text()) {
    const int order = a.text().compare(b.text());  // UTF-8 sorts as its code points do
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_list() && b.is_list() && a.list().tuple == b.list().tuple) {
    const Values &left = a.items(), &right = b.items();
    for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!equal(left[i], right[i])) return compare(left[i], right[i], symbol);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size();
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) throw Problem{"a defined value", side->undefined().message()};
  }
  throw Problem{"values that can be ordered", cat("'", symbol, "' between ", a.type_name(), " and ", b.type_name())};
}

std::string hash_key(const Value& value) {
  if (value.is_text()) return cat("s", value.text());
  if (value.is_integral()) return cat("n", value.integer());
  if (value.is_float()) {
    const double real = value.real();
    if (real == std::floor(real) && std::abs(real) < 9e18) return cat("n", static_cast<std::int64_t>(real));
    return cat("n", float_repr(real));
  }
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "Undefined";
  if (value.is_list() && value.list().tuple) {
    std::string out = "(";
    for (const Value& item : value.items()) {
      const std::string part = hash_key(item);
      out += cat(part.size(), ":", part);
    }
    return out;
  }
  if (value.is_object()) return cat("o", reinterpret_cast<std::uintptr_t>(&value.object()));
  throw Problem{"a hashable value", cat("a ", value.type_name())};
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[40];
  const auto shortest = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view text(digits, static_cast<std::size_t>(shortest.ptr - digits));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::string_view tail = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(tail.data(), tail.data() + tail.size(), exponent);
  // Python's rule: fixed between 1e-4 and 1e16, else scientific with at least two exponent digits.
  if (exponent < -4 || exponent >= 16) {
    const int magnitude = exponent < 0 ? -exponent : exponent;
    return cat(text.substr(0, e), exponent < 0 ? "e-" : "e+", magnitude < 10 ? "0" : "", magnitude);
  }
  const auto fixed_end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
  std::string out(digits, fixed_end.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string string_repr(std::string_view text) {
  const bool doubles = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubles ? '"' : '\'';
  static constexpr char hex[] = "0123456789abcdef";
  std::string out(1, quote);
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(at, size);
    } else {
      const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
      for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out += hex[c >> shift & 15U];
    }
  }
  return out + quote;
}

Value make_dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  dict->entries.reserve(entries.size());
  for (auto& [key, value] : entries) dict->set(std::move(key), std::move(value));
  return Value(DictPtr(std::move(dict)));
}

}  // namespace tern::jinja
