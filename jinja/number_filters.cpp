// Filters that take or make numbers.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

// int(text, base) of Python, for what fits in 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  text = strip(text, true, true);
  bool minus = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    minus = text[0] == '-';
    text.remove_prefix(1);
  }
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix && (base == prefix || base == 0)) {
    text.remove_prefix(2);
    base = prefix;
  } else if (base == 0) {
    base = 10;
  }
  if (base < 2 || base > 36) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (text[i] == '_' && !between) return std::nullopt;
    if (text[i] != '_') digits += text[i];
  }
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  if (minus) digits.insert(digits.begin(), '-');
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  std::string bare(strip(text, true, true));
  std::erase(bare, '_');
  if (bare.empty() || bare.find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(bare.c_str(), &end);
  if (end != bare.c_str() + bare.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 9.2e18) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Value int_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  std::optional<std::int64_t> out;
  if (value.is_integral()) {
    out = value.integer();
  } else if (value.is_float()) {
    out = truncated(value.real());
  } else if (value.is_text()) {
    out = parse_integer(value.text(), bound.integer(1, 10));
    if (!out) {
      const auto real = parse_real(value.text());
      if (real) out = truncated(*real);
    }
  }
  return out ? Value(*out) : bound[0] ? *bound[0] : Value(0);
}

Value float_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  if (value.is_number()) return Value(value.real());
  if (value.is_text()) {
    if (const auto real = parse_real(value.text())) return Value(*real);
  }
  return bound[0] ? *bound[0] : Value(0.0);
}

Value abs_filter(Evaluator&, const Value& value, const Arguments&) {
  if (value.is_float()) return Value(std::abs(value.real()));
  const std::int64_t number = integer_of(value, "the operand of abs");
  return number < 0 ? negated(value, false) : Value(number);
}

// To a multiple of 10 ** digits, ties to the even one.
Value rounded_integer(std::int64_t value, std::int64_t digits) {
  if (digits > 19) return Value(0);
  __int128 power = 1;
  for (std::int64_t i = 0; i < digits; ++i) power *= 10;
  __int128 quotient = value / power, rest = value % power;
  if (rest < 0) {
    rest += power;
    --quotient;
  }
  if (2 * rest > power || (2 * rest == power && quotient % 2 != 0)) ++quotient;
  const __int128 result = quotient * power;
  if (result > INT64_MAX || result < INT64_MIN) throw Problem{"integers within 64 bits", "a larger result"};
  return Value(static_cast<std::int64_t>(result));
}

// Python rounds the exact binary value, ties to even: printf's digits do the same.
Value round_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound[1] ? bound.text(1) : "common";
  if (value.is_undefined()) throw Problem{"a defined value", value.undefined().message()};
  if (!value.is_number()) throw Problem{"a number", cat("a ", value.type_name())};
  if (method != "common" && method != "ceil" && method != "floor") {
    throw Problem{"common, ceil or floor as rounding method", string_repr(method)};
  }
  if (std::abs(precision) > 400) throw Problem{"a precision of at most 400 digits", cat(precision)};
  if (method != "common") {
    const Value power = binary(evaluator, BinaryOp::pow, Value(10), Value(precision));
    const double scaled = binary(evaluator, BinaryOp::mul, value, power).real();
    const auto whole = truncated(method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
    if (!whole) throw Problem{"a number whose integer part fits in 64 bits", cat(scaled)};
    return binary(evaluator, BinaryOp::div, Value(*whole), power);
  }
  if (value.is_integral() && precision >= 0) return Value(value.integer());
  if (precision < 0 && value.is_integral()) return rounded_integer(value.integer(), -precision);
  if (precision < 0) {
    const double power = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(value.real() / power) * power;
    return Value(rounded);
  }
  if (!std::isfinite(value.real())) return value;
  char digits[800];
  const int size = std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value.real());
  return Value(std::strtod(std::string(digits, static_cast<std::size_t>(size)).c_str(), nullptr));
}

Value filesizeformat_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"});
  const bool binary = bound.flag(0, false);
  const Value number = float_filter(evaluator, value, {{Value()}, {}});
  if (!number.is_float()) throw Problem{"a number of bytes", value.repr()};
  const double bytes = number.real(), base = binary ? 1024 : 1000;
  if (bytes == 1) return Value("1 Byte");
  if (bytes < base) return Value(cat(static_cast<std::int64_t>(std::max(bytes, -9e18)), " Bytes"));
  static constexpr std::string_view prefixes = "kMGTPEZY";
  double unit = base;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    unit *= base;
    if (bytes < unit || i + 1 == prefixes.size()) {
      const char prefix = binary && i == 0 ? 'K' : prefixes[i];
      return Value(cat(fixed(base * bytes / unit, 1), " ", prefix, binary ? "iB" : "B"));
    }
  }
  return Value();
}

}  // namespace

std::vector<FilterRow> number_filters() {
  return {{"int", int_filter},
          {"float", float_filter},
          {"abs", abs_filter},
          {"round", round_filter},
          {"filesizeformat", filesizeformat_filter}};
}

}  // namespace tern::jinja
