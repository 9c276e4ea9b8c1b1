#include "chat/answer_formats/json_stream.h"

#include <string_view>

namespace tern::chat {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;
bool is_high(std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10FFFF || is_high(code) || is_low(code)) code = kReplacement;
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[more] | (code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80U | ((code >> (6 * i)) & 0x3FU));
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(c) >= 0x20) {
    out += c;
    return;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[static_cast<unsigned char>(c) >> 4U];
  out += kHex[static_cast<unsigned char>(c) & 15U];
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) append_escaped(out, c);
  return out += '"';
}

Fed JsonString::feed(char c, std::string& letters) {
  if (at_ == At::escape) return escape(c, letters);
  if (at_ == At::hex) return hex(c, letters);
  if (static_cast<unsigned char>(c) < 0x20) return Fed::broken;
  if (c == '\\') {
    at_ = At::escape;
    return Fed::more;
  }
  if (high_ != 0) append_utf8(letters, kReplacement);
  high_ = 0;
  if (c == '"') return Fed::done;
  letters += c;
  return Fed::more;
}

Fed JsonString::escape(char c, std::string& letters) {
  if (c == 'u') {
    at_ = At::hex;
    unit_ = 0, digits_ = 0;
    return Fed::more;
  }
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  const std::size_t i = kFrom.find(c);
  if (i == std::string_view::npos) return Fed::broken;
  if (high_ != 0) append_utf8(letters, kReplacement);
  high_ = 0;
  letters += kTo[i];
  at_ = At::letters;
  return Fed::more;
}

Fed JsonString::hex(char c, std::string& letters) {
  const char lower = static_cast<char>(c | 0x20);
  if (is_digit(c)) {
    unit_ = unit_ * 16 + static_cast<std::uint32_t>(c - '0');
  } else if (lower >= 'a' && lower <= 'f') {
    unit_ = unit_ * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
  } else {
    return Fed::broken;
  }
  if (++digits_ < 4) return Fed::more;
  at_ = At::letters;
  if (high_ != 0 && is_low(unit_)) {
    append_utf8(letters, 0x10000 + ((high_ - 0xD800) << 10U) + (unit_ - 0xDC00));
    high_ = 0;
    return Fed::more;
  }
  if (high_ != 0) append_utf8(letters, kReplacement);
  high_ = is_high(unit_) ? unit_ : 0;
  if (high_ == 0) append_utf8(letters, unit_);
  return Fed::more;
}

Fed JsonValue::feed(char c) {
  switch (at_) {
    case At::number:
      if (digit(c)) return Fed::more;
      if (!number_whole()) return Fed::broken;
      if (open_.empty()) return Fed::ended;
      at_ = At::after;
      return after(c);
    case At::string: {
      letters_.clear();
      const Fed fed = string_.feed(c, letters_);
      if (fed != Fed::done) return fed;
      if (!is_key_) return closed();
      at_ = At::colon;
      return Fed::more;
    }
    case At::word:
      if (c != *word_) return Fed::broken;
      return *++word_ == 0 ? closed() : Fed::more;
    case At::after:
      return after(c);
    case At::colon:
      if (is_blank(c)) return Fed::more;
      if (c != ':') return Fed::broken;
      at_ = At::value;
      return Fed::more;
    case At::first_key:
    case At::key:
      if (is_blank(c)) return Fed::more;
      if (c == '}' && at_ == At::first_key) return after(c);
      if (c != '"') return Fed::broken;
      at_ = At::string, is_key_ = true, string_ = {};
      return Fed::more;
    case At::first_item:
      if (c == ']') return after(c);
      return value(c);
    case At::value:
      return value(c);
    case At::done:
      return Fed::ended;
  }
  return Fed::broken;
}

Fed JsonValue::value(char c) {
  if (is_blank(c)) return Fed::more;
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return Fed::broken;
    open_.push_back(c);
    at_ = c == '{' ? At::first_key : At::first_item;
    return Fed::more;
  }
  if (c == '"') {
    at_ = At::string, is_key_ = false, string_ = {};
    return Fed::more;
  }
  if (c == '-' || is_digit(c)) {
    at_ = At::number;
    digits_ = c == '-' ? Digits::minus : c == '0' ? Digits::zero : Digits::integer;
    return Fed::more;
  }
  word_ = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : "";
  at_ = At::word;
  return *word_ == 0 ? Fed::broken : Fed::more;
}

Fed JsonValue::after(char c) {
  if (is_blank(c)) return Fed::more;
  const bool object = open_.back() == '{';
  if (c == ',') {
    at_ = object ? At::key : At::value;
    return Fed::more;
  }
  if (c != (object ? '}' : ']')) return Fed::broken;
  open_.pop_back();
  return closed();
}

Fed JsonValue::closed() {
  at_ = open_.empty() ? At::done : At::after;
  return open_.empty() ? Fed::done : Fed::more;
}

bool JsonValue::digit(char c) {
  const bool exponent = c == 'e' || c == 'E';
  switch (digits_) {
    case Digits::minus:
      if (is_digit(c)) digits_ = c == '0' ? Digits::zero : Digits::integer;
      return is_digit(c);
    case Digits::zero:
    case Digits::integer:
      if (is_digit(c)) return digits_ == Digits::integer;
      digits_ = c == '.' ? Digits::point : exponent ? Digits::exponent : digits_;
      return c == '.' || exponent;
    case Digits::point:
      digits_ = is_digit(c) ? Digits::fraction : Digits::point;
      return is_digit(c);
    case Digits::fraction:
      digits_ = exponent ? Digits::exponent : digits_;
      return is_digit(c) || exponent;
    case Digits::exponent:
      if (c != '+' && c != '-' && !is_digit(c)) return false;
      digits_ = is_digit(c) ? Digits::power : Digits::sign;
      return true;
    case Digits::sign:
      digits_ = is_digit(c) ? Digits::power : Digits::sign;
      return is_digit(c);
    case Digits::power:
      return is_digit(c);
  }
  return false;
}

bool JsonValue::number_whole() const {
  return digits_ == Digits::zero || digits_ == Digits::integer || digits_ == Digits::fraction ||
         digits_ == Digits::power;
}

bool JsonValue::whole() const { return at_ == At::done || (at_ == At::number && open_.empty() && number_whole()); }

Fed JsonArguments::feed(char c, std::string& out) {
  if (at_ == At::start) {
    if (is_blank(c)) return Fed::more;
    if (c == '"') {
      at_ = At::string;
      return Fed::more;
    }
    if (c != '{') return Fed::broken;
    at_ = At::object;
  }
  if (at_ == At::object) {
    const Fed fed = value_.feed(c);
    if (fed != Fed::broken) out += c;
    return fed;
  }
  letters_.clear();
  const Fed fed = string_.feed(c, letters_);
  if (fed == Fed::broken) return fed;
  for (const char letter : letters_) {
    if (whole_) {
      if (!is_blank(letter)) return Fed::broken;
      continue;
    }
    const Fed inner = value_.feed(letter);
    if (inner == Fed::broken) return inner;
    out += letter;
    whole_ = inner == Fed::done;
  }
  if (fed == Fed::done && !whole_) return Fed::broken;
  return fed;
}

}  // namespace tern::chat
