#include "tokenizer/serde_number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/strings.h"

namespace tern::tokenizer {
namespace {

constexpr int kLargestPower = 308;  // of ten, in a double

double power_of_ten(int exponent) {
  const std::string text = cat("1e", exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

double serde_number(double exact) {
  if (!std::isfinite(exact) || exact == std::trunc(exact)) return exact;
  std::array<char, 32> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(exact));
  const std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const std::size_t e = text.find('e');
  std::uint64_t digits = 0;  // at most 17 of them
  int exponent = 0;
  bool fraction = false;
  for (const char c : text.substr(0, e)) {
    if (c == '.') {
      fraction = true;
      continue;
    }
    digits = 10 * digits + static_cast<std::uint64_t>(c - '0');
    exponent -= fraction ? 1 : 0;
  }
  if (e != std::string_view::npos) exponent += std::atoi(buffer.data() + e + 1);
  auto value = static_cast<double>(digits);
  while (exponent < -kLargestPower) {
    value /= power_of_ten(kLargestPower);
    exponent += kLargestPower;
  }
  value = exponent < 0 ? value / power_of_ten(-exponent) : value * power_of_ten(exponent);
  return std::copysign(value, exact);
}

}  // namespace tern::tokenizer
