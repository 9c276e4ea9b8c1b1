// UTF-8 as the Unicode standard's chapter 3.9 reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern::tokenizer {

[[nodiscard]] inline std::size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xE0) return 2;
  return lead < 0xF0 ? 3 : 4;
}

[[nodiscard]] inline std::size_t utf8_size(char32_t c) {
  if (c < 0x80) return 1;
  if (c < 0x800) return 2;
  return c < 0x10000 ? 3 : 4;
}

[[nodiscard]] inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The code point at `at` of valid UTF-8; moves `at` past it.
[[nodiscard]] inline char32_t next_char(std::string_view text, std::size_t& at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  const unsigned char lead = *p;
  if (lead < 0x80) return at += 1, lead;
  if (lead < 0xE0) return at += 2, static_cast<char32_t>((lead & 0x1F) << 6 | (p[1] & 0x3F));
  if (lead < 0xF0) {
    return at += 3, static_cast<char32_t>((lead & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
  }
  return at += 4, static_cast<char32_t>((lead & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F));
}

// Start of the code point before `at` (> 0) of valid UTF-8.
[[nodiscard]] inline std::size_t previous_char(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (at > 0 && is_continuation(text[at]));
  return at;
}

void append_char(std::string& out, char32_t c);

// Length of the valid UTF-8 sequence at `at`, or 0; `broken` is then the length of its maximal broken part (>= 1).
[[nodiscard]] std::size_t valid_sequence(std::string_view bytes, std::size_t at, std::size_t& broken);

// Where the first broken sequence begins, or bytes.size().
[[nodiscard]] std::size_t valid_prefix(std::string_view bytes);

// Each maximal broken part replaced by U+FFFD, as Rust's from_utf8_lossy and Python's errors="replace" do; or each byte
// of it, as llama.cpp does.
[[nodiscard]] std::string to_valid_utf8(std::string_view bytes, bool each_byte = false);

// How many bytes at the end begin a sequence that further bytes may complete (0 to 3).
[[nodiscard]] std::size_t incomplete_tail(std::string_view bytes);

}  // namespace tern::tokenizer
