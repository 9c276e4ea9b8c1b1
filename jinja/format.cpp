// Python's two string formattings: "%s" % values and "{}".format(values).
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

constexpr std::int64_t max_width = 100000;

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false, zero = false;
  std::int64_t width = 0, precision = -1;
};

std::int64_t read_count(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > max_width) throw Problem{cat("a width or precision of at most ", max_width), "a larger one"};
  }
  return value;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  bool filled = false;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  const std::size_t head = byte_offset(text, 1);
  if (head < text.size() && head > 0 && is_align(text[head])) {
    spec.fill = text.substr(0, head);
    filled = true;
    spec.align = text[head];
    at = head + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = (++at, true);
  if (at < text.size() && text[at] == '0') {
    spec.zero = (++at, true);
    if (!filled) spec.fill.assign(1, '0');
    if (!spec.align) spec.align = '=';
  }
  spec.width = read_count(text, at);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    const std::size_t begin = ++at;
    spec.precision = read_count(text, at);
    if (at == begin) throw Problem{"a precision behind `.`", string_repr(text)};
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw Problem{"a format that Python knows", string_repr(text)};
  return spec;
}

// `sign` and `digits` laid out to the spec's width; numbers go right, text left.
std::string laid_out(const Spec& spec, std::string sign, std::string digits, bool number) {
  const auto length = static_cast<std::int64_t>(code_point_count(sign) + code_point_count(digits));
  const std::int64_t missing = std::max<std::int64_t>(0, spec.width - length);
  const char align = spec.align ? spec.align : number ? '>' : '<';
  const auto fill = [&](std::int64_t count) {
    std::string out;
    for (std::int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  if (align == '<') return sign + digits + fill(missing);
  if (align == '=') return sign + fill(missing) + digits;
  if (align == '^') return fill(missing / 2) + sign + digits + fill(missing - missing / 2);
  return fill(missing) + sign + digits;
}

std::string grouped(std::string digits, char separator, std::size_t every) {
  if (!separator) return digits;
  std::size_t end = 0;
  while (end < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[end]))) ++end;
  for (std::size_t at = end; at > every; at -= every) digits.insert(at - every, 1, separator);
  return digits;
}

std::string in_base(std::uint64_t value, unsigned base, bool upper) {
  static constexpr char lower_digits[] = "0123456789abcdef", upper_digits[] = "0123456789ABCDEF";
  std::string out;
  do {
    out.insert(out.begin(), (upper ? upper_digits : lower_digits)[value % base]);
    value /= base;
  } while (value);
  return out;
}

std::string sign_of(bool minus, char wish) { return minus ? "-" : wish == '+' ? "+" : wish == ' ' ? " " : ""; }

std::string printed(double value, char type, std::int64_t precision, bool alternate) {
  const std::array<char, 8> format{
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
  const int size = std::snprintf(nullptr, 0, format.data(), static_cast<int>(precision), value);
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.data(), static_cast<int>(precision), value);
  out.pop_back();
  return out;
}

std::string format_real(double value, const Spec& spec) {
  const bool minus = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  std::string digits;
  const char type = spec.type;
  // Checked before it becomes part of a format of printf.
  if (type != '\0' && std::string_view("eEfFgGn%").find(type) == std::string_view::npos)
    throw Problem{"a format of numbers", string_repr(std::string(1, type))};
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (type == 'E' || type == 'F' || type == 'G') digits = to_upper(digits);
  } else if (type == '%') {
    digits = printed(magnitude * 100, 'f', spec.precision < 0 ? 6 : spec.precision, false);
  } else if (type == '\0' && spec.precision < 0) {
    digits = float_repr(magnitude);
  } else if (type == '\0') {
    digits = printed(magnitude, 'g', std::max<std::int64_t>(spec.precision, 1), false);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  } else {
    digits = printed(magnitude, type == 'n' ? 'g' : type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
  if (type == '%') digits += '%';
  return laid_out(spec, sign_of(minus, spec.sign), grouped(digits, spec.grouping, 3), true);
}

std::string format_integer(std::int64_t value, const Spec& spec) {
  const char type = spec.type ? spec.type : 'd';
  if (spec.precision >= 0 && std::string_view("bcdoxXn").find(type) != std::string_view::npos) {
    throw Problem{"no precision for an integer", cat(".", spec.precision)};
  }
  if (std::string_view("eEfFgG%").find(type) != std::string_view::npos)
    return format_real(static_cast<double>(value), spec);
  if (type == 'c') {
    std::string out;
    if (value < 0 || value > 0x10FFFF) throw Problem{"a code point", cat(value)};
    append_code_point(out, static_cast<std::uint32_t>(value));
    return laid_out(spec, "", out, true);
  }
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  if (base == 10 && type != 'd' && type != 'n')
    throw Problem{"a format of integers", string_repr(std::string(1, type))};
  const std::uint64_t magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string sign = sign_of(value < 0, spec.sign);
  if (spec.alternate && base != 10) sign += std::string("0") + type;
  return laid_out(spec, sign, grouped(in_base(magnitude, base, type == 'X'), spec.grouping, base == 10 ? 3 : 4), true);
}

std::string format_text(const std::string& text, const Spec& spec) {
  if (spec.type && spec.type != 's') throw Problem{"a format of strings", string_repr(std::string(1, spec.type))};
  if (spec.align == '=' && !spec.zero) throw Problem{"<, > or ^ to align a string", "="};
  Spec plain = spec;
  if (plain.align == '=') plain.align = '<';
  const std::size_t size =
      spec.precision < 0 ? text.size() : byte_offset(text, static_cast<std::size_t>(spec.precision));
  return laid_out(plain, "", text.substr(0, size), false);
}

std::string format_value(const Value& value, std::string_view text) {
  if (text.empty()) return value.str();
  const Spec spec = parse_spec(text);
  if (value.is_text()) return format_text(value.text(), spec);
  if (value.is_float()) return format_real(value.real(), spec);
  if (value.is_integral()) return format_integer(value.integer(), spec);
  throw Problem{"a string or number to format", cat("a ", value.type_name())};
}

// ---- "{}".format

class BraceFormat {
 public:
  BraceFormat(Evaluator& evaluator, const Arguments& arguments) : evaluator_(evaluator), arguments_(arguments) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) throw Problem{"replacement fields nested at most twice", "deeper ones"};
    std::string out;
    for (std::size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      if (c != '{' && c != '}') {
        out += c;
      } else if (i + 1 < format.size() && format[i + 1] == c) {
        out += c;
        ++i;
      } else if (c == '}') {
        throw Problem{"`{` before `}` in a format", string_repr(format)};
      } else {
        const std::size_t close = closing(format, i);
        out += field(format.substr(i + 1, close - i - 1), depth);
        evaluator_.charge(64);
        i = close;
      }
    }
    evaluator_.charge(out.size());
    return out;
  }

 private:
  static std::size_t closing(std::string_view format, std::size_t open) {
    int level = 0;
    for (std::size_t i = open; i < format.size(); ++i) {
      if (format[i] == '{') ++level;
      if (format[i] == '}' && --level == 0) return i;
    }
    throw Problem{"`}` in a format", string_repr(format)};
  }

  std::string field(std::string_view text, int depth) {
    std::size_t end = 0;
    for (int brackets = 0; end < text.size(); ++end) {
      if (text[end] == '[') ++brackets;
      if (text[end] == ']') --brackets;
      if (brackets <= 0 && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value = lookup(text.substr(0, end));
    if (end < text.size() && text[end] == '!') {
      const char conversion = end + 1 < text.size() ? text[end + 1] : '\0';
      if (conversion == 'r' || conversion == 'a') {
        value = Value(value.repr());
      } else if (conversion == 's') {
        value = Value(value.str());
      } else {
        throw Problem{"the conversion !s, !r or !a", string_repr(text)};
      }
      end += 2;
      if (end < text.size() && text[end] != ':') throw Problem{"`:` behind a conversion", string_repr(text)};
    }
    return format_value(value, end < text.size() ? run(text.substr(end + 1), depth + 1) : "");
  }

  Value lookup(std::string_view path) {
    const std::size_t first = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, first));
    for (std::size_t at = first; at < path.size();) {
      if (path[at] == '.') {
        const std::size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        value = evaluator_.attribute(value, std::string(path.substr(at + 1, end - at - 1)));
        at = end;
      } else {
        const std::size_t end = path.find(']', at);
        if (path[at] != '[' || end == std::string_view::npos) throw Problem{"`[index]` in a format", string_repr(path)};
        const std::string_view key = path.substr(at + 1, end - at - 1);
        std::size_t digits = 0;
        const std::int64_t number = read_count(key, digits);
        value = evaluator_.item(value, digits == key.size() && digits ? Value(number) : Value(key));
        at = end + 1;
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::size_t digits = 0;
    const std::int64_t number = read_count(name, digits);
    if (digits == name.size()) {
      const std::size_t index = name.empty() ? next_++ : static_cast<std::size_t>(number);
      if (index < arguments_.positional.size()) return arguments_.positional[index];
      throw Problem{"a value for each field of a format", cat(arguments_.positional.size(), " values")};
    }
    for (const auto& [key, value] : arguments_.keyword) {
      if (key == name) return value;
    }
    throw Problem{"a value for each field of a format", string_repr(name)};
  }

  Evaluator& evaluator_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
};

// ---- "%s" % values

class PercentFormat {
 public:
  PercentFormat(Evaluator& evaluator, const Value& arguments) : evaluator_(evaluator), arguments_(arguments) {
    if (arguments.is_list() && arguments.list().tuple) {
      values_ = arguments.items();
    } else {
      values_ = {arguments};
    }
  }

  std::string run(std::string_view format) {
    std::string out;
    for (std::size_t at = 0; at < format.size();) {
      if (format[at] != '%') {
        out += format[at++];
        continue;
      }
      evaluator_.charge(64);
      out += conversion(format, ++at);
      evaluator_.step(out.size() / 4096);
    }
    if (next_ < values_.size() && !arguments_.is_dict() && !named_) {
      throw Problem{"as many values as the format takes", "more"};
    }
    evaluator_.charge(out.size());
    return out;
  }

 private:
  const Value& next_value() {
    if (next_ >= values_.size()) throw Problem{"as many values as the format takes", "fewer"};
    return values_[next_++];
  }

  std::int64_t count(std::string_view format, std::size_t& at) {
    if (at >= format.size() || format[at] != '*') return read_count(format, at);
    ++at;
    const std::int64_t value = integer_of(next_value(), "a width for `*`");
    if (value > max_width || value < -max_width) throw Problem{cat("a width of at most ", max_width), cat(value)};
    return value;
  }

  std::string conversion(std::string_view format, std::size_t& at) {
    Spec spec;
    const Value* value = nullptr;
    if (at < format.size() && format[at] == '(') {
      const std::size_t close = format.find(')', at);
      if (close == std::string_view::npos) throw Problem{"`)` in a format", string_repr(format)};
      if (!arguments_.is_dict()) throw Problem{"a dict for a format with names", cat("a ", arguments_.type_name())};
      value = arguments_.dict().get(format.substr(at + 1, close - at - 1));
      if (!value)
        throw Problem{"a value for each name in the format", string_repr(format.substr(at + 1, close - at - 1))};
      named_ = true;
      at = close + 1;
    }
    bool left = false;
    for (; at < format.size() && std::string_view("#0- +").find(format[at]) != std::string_view::npos; ++at) {
      if (format[at] == '#') spec.alternate = true;
      if (format[at] == '0') spec.zero = true;
      if (format[at] == '-') left = true;
      if (format[at] == '+' || (format[at] == ' ' && spec.sign != '+')) spec.sign = format[at];
    }
    spec.width = count(format, at);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (at < format.size() && format[at] == '.') spec.precision = std::max<std::int64_t>(0, count(format, ++at));
    while (at < format.size() && (format[at] == 'l' || format[at] == 'h' || format[at] == 'L')) ++at;
    if (at >= format.size()) throw Problem{"a conversion behind `%`", "the end of the format"};
    const char type = format[at++];
    if (type == '%') return "%";
    spec.align = left ? '<' : '>';
    return converted(type, value ? *value : next_value(), spec, left);
  }

  static std::string converted(char type, const Value& value, Spec spec, bool left) {
    if (type == 's' || type == 'r' || type == 'a') {
      const std::string text = type == 's' ? value.str() : value.repr();
      return format_text(text, spec);
    }
    if (type == 'c') {
      spec.precision = -1;
      if (value.is_text() && code_point_count(value.text()) == 1) return format_text(value.text(), spec);
      spec.type = 'c';
      return format_integer(integer_of(value, "a character for %c"), spec);
    }
    if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
    if (!value.is_number()) throw Problem{cat("a number for `%", type, "`"), cat("a ", value.type_name())};
    if (spec.zero && !left) {
      spec.fill = "0";
      spec.align = '=';
    }
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      spec.type = type;
      return format_real(value.real(), spec);
    }
    if (std::string_view("diuoxX").find(type) == std::string_view::npos) {
      throw Problem{"a conversion that Python knows", cat("`%", type, "`")};
    }
    if (value.is_float() && !(std::abs(value.real()) < 9.2e18)) throw Problem{"a number within 64 bits", value.repr()};
    if (value.is_float() && (type == 'o' || type == 'x' || type == 'X')) throw Problem{"an integer", "a float"};
    const std::int64_t number = value.is_float() ? static_cast<std::int64_t>(value.real()) : value.integer();
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    const std::int64_t precision = std::exchange(spec.precision, -1);
    if (precision < 0) return format_integer(number, spec);
    Spec bare;
    bare.type = spec.type;
    std::string digits = format_integer(number, bare);
    const bool minus = digits[0] == '-';
    if (minus) digits.erase(0, 1);
    if (digits.size() < static_cast<std::size_t>(precision))
      digits.insert(0, static_cast<std::size_t>(precision) - digits.size(), '0');
    return laid_out(spec, sign_of(minus, spec.sign), digits, true);
  }

  Evaluator& evaluator_;
  const Value& arguments_;
  Values values_;
  std::size_t next_ = 0;
  bool named_ = false;
};

}  // namespace

Value percent_format(Evaluator& evaluator, const std::string& format, const Value& arguments) {
  return Value(PercentFormat(evaluator, arguments).run(format));
}

std::string brace_format(Evaluator& evaluator, const std::string& format, const Arguments& arguments) {
  return BraceFormat(evaluator, arguments).run(format, 0);
}

}  // namespace tern::jinja
