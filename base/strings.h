// Text from parts, without a formatting library: base builds with a C++ compiler alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tern {

void append_text(std::string& out, std::string_view text);
void append_text(std::string& out, double value);  // shortest text that reads back to the same value
void append_text(std::string& out, std::int64_t value);
void append_text(std::string& out, std::uint64_t value);
inline void append_text(std::string& out, bool value) { append_text(out, std::string_view(value ? "true" : "false")); }
inline void append_text(std::string& out, char value) { out += value; }

// cat("rank ", 3, " of ", 6) == "rank 3 of 6".
template <typename... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::string out;
  auto one = [&out](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_same_v<Part, bool> || std::is_same_v<Part, char>) {
      append_text(out, part);
    } else if constexpr (std::is_integral_v<Part> && std::is_signed_v<Part>) {
      append_text(out, static_cast<std::int64_t>(part));
    } else if constexpr (std::is_integral_v<Part>) {
      append_text(out, static_cast<std::uint64_t>(part));
    } else if constexpr (std::is_floating_point_v<Part>) {
      append_text(out, static_cast<double>(part));
    } else {
      append_text(out, std::string_view(part));
    }
  };
  (one(parts), ...);
  return out;
}

// The double that is written as `value` is: 0.1 of the float nearest to it, which is another double.
[[nodiscard]] double shortest(float value);
[[nodiscard]] std::string fixed(double value, int digits);   // fixed(1.25, 1) == "1.2"
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);  // "1.5 GiB"
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
[[nodiscard]] std::string_view trim(std::string_view text);  // ASCII whitespace off both ends

// Edits from one to the other, a swap of neighbours being one; `nearest` gives the closest candidate within a third of
// the word's length, but at least one edit, or "".
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tern
