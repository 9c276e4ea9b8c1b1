#include "tokenizer/gguf/llama_chars.h"

#include <string>

#include "tokenizer/unicode/unicode.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

struct Span {
  std::uint32_t first, last;
};

// Assigned in Unicode 15.1 to 17, of which llama.cpp (July 2026) knows nothing yet: found by asking both for every code
// point, as script/golden.d/gguf_tokenizers.py still does for what they make of them.
constexpr Span kNewer[] = {
    {0x897, 0x897},     {0x1b4e, 0x1b4f},   {0x1b7f, 0x1b7f},   {0x1c89, 0x1c8a},   {0x2427, 0x2429},
    {0x31e4, 0x31e5},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d40, 0x10d65},
    {0x10d69, 0x10d85}, {0x10d8e, 0x10d8f}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc}, {0x11380, 0x11389},
    {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0}, {0x113c2, 0x113c2},
    {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d5}, {0x113d7, 0x113d8}, {0x113e1, 0x113e2},
    {0x116d0, 0x116e3}, {0x11bc0, 0x11be1}, {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa},
    {0x16100, 0x16139}, {0x16d40, 0x16d79}, {0x18cff, 0x18cff}, {0x1cc00, 0x1ccf9}, {0x1cd00, 0x1ceb3},
    {0x1e5d0, 0x1e5fa}, {0x1e5ff, 0x1e5ff}, {0x1f8b2, 0x1f8bb}, {0x1f8c0, 0x1f8c1}, {0x1fa89, 0x1fa89},
    {0x1fa8f, 0x1fa8f}, {0x1fabe, 0x1fabe}, {0x1fac6, 0x1fac6}, {0x1fadc, 0x1fadc}, {0x1fadf, 0x1fadf},
    {0x1fae9, 0x1fae9}, {0x1fbcb, 0x1fbef}};
// Format characters that BERT's clean-up, unlike the category, does not count among the controls.
constexpr Span kFormat[] = {{0x890, 0x891}, {0x8e2, 0x8e2}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}};

LlamaClass class_of(std::uint16_t flags) {
  if ((flags & kWhite) != 0) return LlamaClass::white;
  if ((flags & kLetter) != 0) return LlamaClass::letter;
  if ((flags & kNumber) != 0) return LlamaClass::number;
  if ((flags & kMark) != 0) return LlamaClass::mark;
  if ((flags & kPunct) != 0) return LlamaClass::punctuation;
  if ((flags & kSymbol) != 0) return LlamaClass::symbol;
  return (flags & kBertRemoved) != 0 ? LlamaClass::control : LlamaClass::other;
}

bool is_newer(char32_t c) {
  for (const Span& span : kNewer) {
    if (c <= span.last) return c >= span.first;
  }
  return false;
}

}  // namespace

LlamaChars::LlamaChars() {
  const CharTable& table = CharTable::get();
  std::vector<std::uint8_t> all(0x110000);
  for (char32_t c = 0; c < 0x110000; ++c) all[c] = static_cast<std::uint8_t>(class_of(table[c]));
  const auto fill = [&](const Span& span, LlamaClass kind) {
    for (std::uint32_t c = span.first; c <= span.last; ++c) all[c] = static_cast<std::uint8_t>(kind);
  };
  for (const Span& span : kNewer) fill(span, LlamaClass::other);
  for (const Span& span : kFormat) fill(span, LlamaClass::control);
  constexpr std::size_t kBlock = 128;
  for (std::size_t begin = 0; begin < all.size(); begin += kBlock) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t last = blocks_.size();
    if (last >= kBlock && std::equal(first, first + kBlock, blocks_.end() - kBlock)) {
      stage_.push_back(static_cast<std::uint16_t>(last / kBlock - 1));
      continue;
    }
    stage_.push_back(static_cast<std::uint16_t>(last / kBlock));
    blocks_.insert(blocks_.end(), first, first + kBlock);
  }
}

const LlamaChars& LlamaChars::get() {
  static const LlamaChars chars;
  return chars;
}

bool is_llama_han(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2EBEF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

char32_t llama_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (char_flags(c) == 0 || is_newer(c)) return c;
  char32_t second = 0;
  return to_lower(c, second);
}

char32_t llama_base(char32_t c) {
  if (c < 0xC0) return c;
  if (c == 0x11938) return 0x11935;  // younger than the other tables
  std::string text;
  append_char(text, c);
  std::vector<CharChange> changes;
  return normalize_form(text, NormalForm::nfd, changes) && !changes.empty() ? changes[0].c : c;
}

}  // namespace tern::tokenizer
