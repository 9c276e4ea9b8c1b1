#include "tokenizer/split_scanner.h"

#include "tokenizer/gguf/llama_chars.h"
#include "tokenizer/unicode/unicode.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct Known {
  std::string_view pattern;
  SplitGrammar grammar;
};

const Known kKnown[] = {
    {kGpt2Pattern, {true, false, false, 0}},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, true, 3}},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, true, 1}},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     {false, true, true, 3}},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, true, 0}},
};

// llama.cpp's spelling of the first, second and third, and one whose letters include marks.
const Known kLlama[] = {
    {kGpt2Pattern, {true, false, false, 0, false, true}},
    {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, false, 3, false, true}},
    {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, false, 1, false, true}},
    {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {false, true, false, 1, true, true}},
};

enum Class : unsigned char { kSpace, kAlpha, kDigit, kOther };

class Scanner {
 public:
  Scanner(const SplitGrammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  // End of the match that begins at `at`.
  [[nodiscard]] std::size_t match(std::size_t at) const {
    const char c = text_[at];
    if (c == '\'') {
      if (const std::size_t length = contraction(at)) return at + length;
    }
    std::size_t next = at;
    const Class kind = classify(next);
    if (kind == kAlpha) return run(next, kAlpha);
    if (kind == kDigit) return digits(next);
    return grammar_.gpt2 ? match_gpt2(at, next, kind) : match_later(at, next, kind);
  }

 private:
  // Class of the character at `at`; moves `at` past it.
  [[nodiscard]] Class classify(std::size_t& at) const {
    const auto lead = static_cast<unsigned char>(text_[at]);
    std::uint16_t flags = 0;
    if (lead < 0x80) {
      flags = table_.ascii()[lead];
      ++at;
    } else {
      const char32_t c = next_char(text_, at);
      if (grammar_.llama) return classify_llama(c);
      flags = table_[c];
    }
    if ((flags & kLetter) != 0) return kAlpha;
    if ((flags & kNumber) != 0) return kDigit;
    return (flags & kWhite) != 0 ? kSpace : kOther;
  }

  [[nodiscard]] Class classify_llama(char32_t c) const {
    switch (llama_[c]) {
      case LlamaClass::letter:
        return kAlpha;
      case LlamaClass::mark:
        return grammar_.marks ? kAlpha : kOther;
      case LlamaClass::number:
        return kDigit;
      case LlamaClass::white:
        return kSpace;
      default:
        return kOther;
    }
  }

  // End of the run of `kind` from `at` on.
  [[nodiscard]] std::size_t run(std::size_t at, Class kind) const {
    while (at < text_.size()) {
      std::size_t next = at;
      if (classify(next) != kind) return at;
      at = next;
    }
    return at;
  }

  [[nodiscard]] std::size_t digits(std::size_t at) const {  // one was read
    for (std::size_t count = 1; at < text_.size() && (grammar_.max_digits == 0 || count < grammar_.max_digits);
         ++count) {
      std::size_t next = at;
      if (classify(next) != kDigit) break;
      at = next;
    }
    return at;
  }

  // Length of 's 't 're 've 'm 'll 'd at `at`, or 0. Without regard to case, the long s is an s.
  [[nodiscard]] std::size_t contraction(std::size_t at) const {
    const auto letter = [&](std::size_t i) -> char {
      if (i >= text_.size()) return 0;
      const char c = text_[i];
      return grammar_.any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(at + 1);
    const char second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    if (first == 'l' && second == 'l') return 3;
    if (grammar_.long_s && text_.substr(at + 1, 2) == "\xC5\xBF") return 3;
    return 0;
  }

  // White space from `at`: all of it at the end of the text, else all but the last character, or the only one.
  [[nodiscard]] std::size_t white(std::size_t at) const {
    const std::size_t end = run(at, kSpace);
    if (end == text_.size()) return end;
    const std::size_t last = previous_char(text_, end);
    return last > at ? last : end;
  }

  [[nodiscard]] std::size_t match_gpt2(std::size_t at, std::size_t next, Class kind) const {
    if (kind == kOther) return run(next, kOther);
    if (text_[at] == ' ' && next < text_.size()) {
      std::size_t after = next;
      const Class following = classify(after);
      if (following != kSpace) return run(after, following);
    }
    return white(at);
  }

  [[nodiscard]] std::size_t match_later(std::size_t at, std::size_t next, Class kind) const {
    const char c = text_[at];
    if (next < text_.size() && c != '\r' && c != '\n') {
      std::size_t after = next;
      const Class following = classify(after);
      if (following == kAlpha) return run(after, kAlpha);
      if (c == ' ' && following == kOther) return newlines(run(after, kOther));
    }
    if (kind == kOther) return newlines(run(next, kOther));
    const std::size_t end = run(next, kSpace);
    for (std::size_t i = end; i > at; --i) {
      if (text_[i - 1] == '\n' || text_[i - 1] == '\r') return i;
    }
    if (end == text_.size()) return end;
    const std::size_t last = previous_char(text_, end);
    return last > at ? last : end;
  }

  [[nodiscard]] std::size_t newlines(std::size_t at) const {
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  const SplitGrammar& grammar_;
  std::string_view text_;
  const CharTable& table_ = CharTable::get();
  const LlamaChars& llama_ = LlamaChars::get();
};

}  // namespace

std::optional<SplitGrammar> known_grammar(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.grammar;
  }
  return std::nullopt;
}

std::optional<SplitGrammar> known_llama_grammar(std::string_view pattern) {
  for (const Known& known : kLlama) {
    if (known.pattern == pattern) return known.grammar;
  }
  return std::nullopt;
}

std::vector<std::string_view> known_patterns() {
  std::vector<std::string_view> all;
  for (const Known& known : kKnown) all.push_back(known.pattern);
  return all;
}

void scan_splits(const SplitGrammar& grammar, std::string_view text, std::size_t base, std::vector<Range>& out) {
  const Scanner scanner(grammar, text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = scanner.match(at);
    out.emplace_back(base + at, base + end);
    at = end;
  }
}

}  // namespace tern::tokenizer
