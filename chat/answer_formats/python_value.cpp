#include "chat/answer_formats/python_value.h"

namespace tern::chat {
namespace {

bool in_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '+' || c == '_';
}

// A word as JSON; "" where it is none.
std::string json_of_word(const std::string& word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  std::string number = word;
  if (number.starts_with('.')) number.insert(0, 1, '0');
  if (number.starts_with("-.")) number.insert(1, 1, '0');
  if (number.ends_with('.')) number += '0';
  JsonValue value;
  for (const char c : number) {
    if (value.feed(c) != Fed::more) return {};
  }
  return value.whole() ? number : std::string();
}

}  // namespace

Fed PythonValue::feed(char c, std::string& out) {
  switch (at_) {
    case At::value:
    case At::first:
      return value(c, out);
    case At::after:
      return after(c, out);
    case At::string:
      return string(c, out);
    case At::escape:
      return escape(c, out);
    case At::code:
      return code(c, out);
    case At::word:
      return word(c, out);
    case At::colon:
      if (is_blank(c)) return Fed::more;
      if (c != ':') return Fed::broken;
      out += ": ";
      at_ = At::value, key_ = false;
      return Fed::more;
  }
  return Fed::broken;
}

Fed PythonValue::value(char c, std::string& out) {
  if (is_blank(c)) return Fed::more;
  const bool may_close = at_ == At::first || comma_;
  if (may_close && !open_.empty() && c == open_.back()) {
    comma_ = false;
    return after(c, out);
  }
  if (comma_) out += ", ";
  comma_ = false;
  if (c == '"' || c == '\'') {
    quote_ = c, at_ = At::string;
    out += '"';
    return Fed::more;
  }
  if (key_) return Fed::broken;
  if (c == '[' || c == '(' || c == '{') {
    if (open_.size() == kMaxDepth) return Fed::broken;
    open_.push_back(c == '[' ? ']' : c == '(' ? ')' : '}');
    out += c == '{' ? '{' : '[';
    at_ = At::first, key_ = c == '{';
    return Fed::more;
  }
  if (!in_word(c)) return Fed::broken;
  at_ = At::word, word_ = c;
  return Fed::more;
}

Fed PythonValue::after(char c, std::string& out) {
  if (open_.empty()) return Fed::ended;
  if (is_blank(c)) return Fed::more;
  if (c == ',') {
    at_ = At::value, comma_ = true, key_ = open_.back() == '}';
    return Fed::more;
  }
  if (c != open_.back()) return Fed::broken;
  open_.pop_back();
  key_ = false;
  out += c == '}' ? '}' : ']';
  return closed();
}

// The end of a value: a word ends only before the byte behind it, so all wait for that.
Fed PythonValue::closed() {
  at_ = key_ ? At::colon : At::after;
  return Fed::more;
}

Fed PythonValue::string(char c, std::string& out) {
  if (c == quote_) {
    out += '"';
    return closed();
  }
  if (c == '\\') {
    at_ = At::escape;
  } else {
    append_escaped(out, c);
  }
  return Fed::more;
}

Fed PythonValue::escape(char c, std::string& out) {
  at_ = At::string;
  switch (c) {
    case 'n':
      append_escaped(out, '\n');
      return Fed::more;
    case 't':
      append_escaped(out, '\t');
      return Fed::more;
    case 'r':
      append_escaped(out, '\r');
      return Fed::more;
    case 'b':
      append_escaped(out, '\b');
      return Fed::more;
    case 'f':
      append_escaped(out, '\f');
      return Fed::more;
    case '\n':
      return Fed::more;  // a line that goes on
    case '\\':
    case '\'':
    case '"':
      append_escaped(out, c);
      return Fed::more;
    case 'x':
    case 'u':
    case 'U':
      at_ = At::code, code_ = 0, digits_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      return Fed::more;
    default:
      append_escaped(out, '\\');
      append_escaped(out, c);
      return Fed::more;
  }
}

Fed PythonValue::code(char c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const std::size_t digit = kHex.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
  if (digit == std::string_view::npos) return Fed::broken;
  code_ = code_ * 16 + static_cast<std::uint32_t>(digit);
  if (--digits_ > 0) return Fed::more;
  std::string letters;
  append_utf8(letters, code_);
  for (const char one : letters) append_escaped(out, one);
  at_ = At::string;
  return Fed::more;
}

Fed PythonValue::word(char c, std::string& out) {
  if (in_word(c)) {
    word_ += c;
    return word_.size() > 64 ? Fed::broken : Fed::more;
  }
  const std::string json = json_of_word(word_);
  if (json.empty()) return Fed::broken;
  out += json;
  (void)closed();
  return key_ ? Fed::broken : after(c, out);
}

std::string json_of_python(std::string_view text) {
  PythonValue value;
  std::string out;
  for (const char c : text) {
    const Fed fed = value.feed(c, out);
    if (fed == Fed::broken || (fed == Fed::ended && !is_blank(c))) return {};
  }
  return value.feed(' ', out) == Fed::ended ? out : std::string();
}

}  // namespace tern::chat
