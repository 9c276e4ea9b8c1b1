// Python's str over UTF-8 bytes: code points, white space and letter case.
//
// Bytes that are not UTF-8 count as one code point each and pass through unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::jinja {

// The code point at byte `at` of `text`, whose byte length goes to `size`. A broken byte gives 0xDC00 + byte.
[[nodiscard]] std::uint32_t code_point_at(std::string_view text, std::size_t at, std::size_t& size);
void append_code_point(std::string& out, std::uint32_t code_point);

[[nodiscard]] std::size_t code_point_count(std::string_view text);
// Byte offset of code point `index`, text.size() where it lies beyond the end.
[[nodiscard]] std::size_t byte_offset(std::string_view text, std::size_t index);
[[nodiscard]] std::vector<std::string_view> code_points(std::string_view text);

[[nodiscard]] bool is_space(std::uint32_t code_point);      // str.isspace of one character
[[nodiscard]] bool is_printable(std::uint32_t code_point);  // what repr() leaves unescaped

// Full case mappings (one character may become three), as Python's.
[[nodiscard]] std::string to_lower(std::string_view text);
[[nodiscard]] std::string to_upper(std::string_view text);
[[nodiscard]] std::string to_title(std::string_view text);        // str.title
[[nodiscard]] std::string to_capitalized(std::string_view text);  // str.capitalize

// The text without leading (left) and trailing (right) white space, or code points of `chars` where given.
[[nodiscard]] std::string_view strip(std::string_view text, bool left, bool right);
[[nodiscard]] std::string_view strip(std::string_view text, std::string_view chars, bool left, bool right);

[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);

[[nodiscard]] std::string html_escape(std::string_view text);  // & < > ' " as markupsafe writes them

}  // namespace tern::jinja
