// Character properties, as the reference implementation's own tables have them (its parts follow different versions of
// Unicode: see script/golden.d/unicode_tables.py).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::tokenizer {

enum CharFlag : std::uint16_t {
  kLetter = 1,           // \p{L}
  kNumber = 2,           // \p{N}
  kWhite = 4,            // White_Space
  kWord = 8,             // \w of Rust's regex crate
  kPunctuation = 16,     // of BertPreTokenizer and Punctuation
  kNumeric = 32,         // of Digits
  kBertRemoved = 64,     // controls that BertNormalizer's clean_text drops
  kBertAccent = 128,     // nonspacing marks that BertNormalizer's strip_accents drops
  kCombining = 256,      // of StripAccents
  kMark = 512,           // \p{M}
  kUnnormalized = 1024,  // utf8proc knows its normalization, the reference does not
  kNfcAttention = 2048,  // text without such characters is its own NFC
  kUpper = 4096,         // \p{Lu} or \p{Lt}
  kLower = 8192,         // \p{Ll}
  kPunct = 16384,        // \p{P}
  kSymbol = 32768,       // \p{S}
};

// Two-stage table of CharFlag masks.
class CharTable {
 public:
  static const CharTable& get();
  [[nodiscard]] std::uint16_t operator[](char32_t c) const {
    return c < 0x110000 ? blocks_[(static_cast<std::size_t>(stage_[c >> 7]) << 7) | (c & 0x7F)] : 0;
  }
  [[nodiscard]] const std::uint16_t* ascii() const { return blocks_.data(); }  // [128]

 private:
  CharTable();
  std::array<std::uint16_t, (0x110000 >> 7)> stage_{};
  std::vector<std::uint16_t> blocks_;
};

[[nodiscard]] inline std::uint16_t char_flags(char32_t c) { return CharTable::get()[c]; }
[[nodiscard]] inline bool is_white(char32_t c) { return (char_flags(c) & kWhite) != 0; }

// Full lower case of one character: one code point, or for U+0130 two (the second in `second`, else 0).
[[nodiscard]] char32_t to_lower(char32_t c, char32_t& second);

// Script number for the UnicodeScripts pre-tokenizer; 0 belongs to any.
[[nodiscard]] std::uint8_t script_of(char32_t c);

// True where PCRE2's older tables would misjudge a character of `text`; `shadow` is then a text of the same length
// whose characters have the right categories.
[[nodiscard]] bool pcre_shadow(std::string_view text, std::string& shadow);

// A character and how it came: 0 replaces the next source character, 1 is inserted, -n replaces one and drops n more.
struct CharChange {
  char32_t c;
  int change;
};

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// The normal form of `text` with its changes, appended to `out`; false (and nothing appended) where text already is it.
[[nodiscard]] bool normalize_form(std::string_view text, NormalForm form, std::vector<CharChange>& out);

}  // namespace tern::tokenizer
