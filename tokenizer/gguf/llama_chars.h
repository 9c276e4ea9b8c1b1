// Character classes as llama.cpp has them: its tables follow an older Unicode than those of text/unicode.h.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::tokenizer {

// The categories that its expressions can ask for; exactly one holds, but white space counts as such first.
enum class LlamaClass : std::uint8_t { other, white, letter, number, mark, punctuation, symbol, control };

class LlamaChars {
 public:
  static const LlamaChars& get();
  [[nodiscard]] LlamaClass operator[](char32_t c) const {
    return c < 0x110000 ? static_cast<LlamaClass>(blocks_[(static_cast<std::size_t>(stage_[c >> 7]) << 7) | (c & 0x7F)])
                        : LlamaClass::other;
  }

 private:
  LlamaChars();
  std::vector<std::uint16_t> stage_;  // [0x110000 / 128]
  std::vector<std::uint8_t> blocks_;
};

// Its Han ranges, some unassigned code points among them.
[[nodiscard]] bool is_llama_han(char32_t c);
// Lower case, one code point for one.
[[nodiscard]] char32_t llama_lower(char32_t c);
// The first code point of the canonical decomposition.
[[nodiscard]] char32_t llama_base(char32_t c);

}  // namespace tern::tokenizer
