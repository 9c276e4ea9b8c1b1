#include "tokenizer/gguf/llama_split.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "tokenizer/gguf/llama_chars.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

using Cuts = std::vector<std::size_t>;  // where parts end, ascending; the last is the end of the text

class LlamaSplit : public PreTokenizer {
 public:
  void apply(AlignedText& text) const override {
    std::vector<Split> out;
    out.reserve(text.splits().size() * 2);
    Cuts cuts;
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        out.push_back(split);
        continue;
      }
      cuts.clear();
      cut(text.text(split), cuts);
      std::size_t begin = 0;
      for (const std::size_t end : cuts) {
        if (begin < end) out.push_back(text.slice(split, split.begin + begin, split.begin + end));
        begin = std::max(begin, end);
      }
    }
    text.splits() = std::move(out);
  }

 protected:
  virtual void cut(std::string_view piece, Cuts& cuts) const = 0;
};

// What a category is in a collapsed text, and the ASCII characters that have it.
struct Category {
  std::string_view name;
  std::string_view members;  // inside a character class, for PCRE2 without UTF
};
constexpr Category kCategories[] = {
    {"N",
     "\xD1"
     "0-9"},
    {"L",
     "\xD2\xD6"
     "A-Za-z"},
    {"P", "\xD3!-#%-*,-/:-;?-@\\[-\\]_\\{\\}"},
    {"M", "\xD4"},
    {"S", "\xD5$+<->^`|~"},
    {"LU",
     "\xD2\xD6"
     "A-Z"},
    {"LL",
     "\xD2\xD6"
     "a-z"},
    {"Han", "\xD6\xD7"},
};

char collapsed(char32_t c, bool han) {
  if (c < 0x80) return static_cast<char>(c);
  const LlamaClass kind = LlamaChars::get()[c];
  if (han && is_llama_han(c)) return static_cast<char>(kind == LlamaClass::letter ? 0xD6 : 0xD7);
  switch (kind) {
    case LlamaClass::white:
      return '\v';
    case LlamaClass::number:
      return static_cast<char>(0xD1);
    case LlamaClass::letter:
      return static_cast<char>(0xD2);
    case LlamaClass::punctuation:
      return static_cast<char>(0xD3);
    case LlamaClass::mark:
      return static_cast<char>(0xD4);
    case LlamaClass::symbol:
      return static_cast<char>(0xD5);
    case LlamaClass::control:
    case LlamaClass::other:
      break;
  }
  return static_cast<char>(0xD0);
}

// The pattern over collapsed text.
std::string expand(std::string_view pattern, const std::string& where) {
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i).starts_with("\\p{")) {
      const std::size_t end = std::min(pattern.find('}', i), pattern.size() - 1);
      const std::string_view name = pattern.substr(i + 3, end - i - 3);
      const auto* found = std::find_if(std::begin(kCategories), std::end(kCategories),
                                       [&](const Category& category) { return category.name == name; });
      if (found == std::end(kCategories)) {
        throw std::logic_error(cat(where, ": no category ", name));
      }
      out += inside ? std::string(found->members) : cat("[", found->members, "]");
      i = end;
      continue;
    }
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      out += pattern[i++];
    } else if (pattern[i] == '[') {
      inside = true;
    } else if (pattern[i] == ']') {
      inside = false;
    }
    out += pattern[i];
  }
  return out;
}

class Collapsed final : public LlamaSplit {
 public:
  Collapsed(std::string_view pattern, const std::string& where)
      : regex_(expand(pattern, where), RegexDialect::bytes, where),
        han_(pattern.find("\\p{Han}") != std::string_view::npos) {}

 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    std::string text;  // one byte a character
    std::vector<std::size_t> places;
    bool same = true;
    text.reserve(piece.size());
    for (std::size_t at = 0; at < piece.size();) {
      if (!is_ascii(piece[at]) && same) {
        for (std::size_t i = 0; i < at; ++i) places.push_back(i);
        same = false;
      }
      if (!same) places.push_back(at);
      text += collapsed(next_char(piece, at), han_);
    }
    if (!same) places.push_back(piece.size());
    std::vector<Range> matches;
    regex_.find_all(text, matches);
    const auto place = [&](std::size_t i) { return same ? i : places[i]; };
    for (const auto& [begin, end] : matches) {
      cuts.push_back(place(begin));
      cuts.push_back(place(end));
    }
    cuts.push_back(piece.size());
  }

 private:
  static bool is_ascii(char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }
  Regex regex_;
  bool han_;
};

class Wide final : public LlamaSplit {
 public:
  Wide(std::string_view pattern, const std::string& where) : regex_(pattern, RegexDialect::ascii_classes, where) {}

 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    std::string shadow;
    std::vector<std::pair<std::size_t, std::size_t>> shifts;  // from this place of the shadow on, bytes left out
    std::size_t copied = 0;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      if ((static_cast<unsigned char>(piece[at]) & 0x80) == 0) {
        ++at;
        continue;
      }
      if (LlamaChars::get()[next_char(piece, at)] != LlamaClass::white) continue;
      shadow.append(piece, copied, begin - copied);
      shadow += '\v';
      copied = at;
      shifts.emplace_back(shadow.size(), at - shadow.size());
    }
    std::vector<Range> matches;
    if (copied > 0) shadow.append(piece, copied);
    regex_.find_all(copied > 0 ? std::string_view(shadow) : piece, matches);
    std::size_t shift = 0;
    auto next = shifts.begin();
    const auto place = [&](std::size_t at) {
      for (; next != shifts.end() && next->first <= at; ++next) shift = next->second;
      return at + shift;
    };
    for (const auto& [begin, end] : matches) {
      cuts.push_back(place(begin));
      cuts.push_back(place(end));
    }
    cuts.push_back(piece.size());
  }

 private:
  Regex regex_;
};

class DigitGroups final : public LlamaSplit {
 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    const LlamaChars& chars = LlamaChars::get();
    Cuts ends;  // of the digits in the run at hand
    const auto flush = [&] {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        if ((ends.size() - i - 1) % 3 == 0) cuts.push_back(ends[i]);
      }
      ends.clear();
    };
    for (std::size_t at = 0; at < piece.size();) {
      if (chars[next_char(piece, at)] == LlamaClass::number) {
        ends.push_back(at);
      } else {
        flush();
      }
    }
    flush();
    cuts.push_back(piece.size());
  }
};

class AsciiDigitGroups final : public LlamaSplit {
 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t end = begin;
      while (end < piece.size() && piece[end] >= '0' && piece[end] <= '9') ++end;
      for (std::size_t at = begin; at < end; ++at) {
        if ((end - at) % 3 == 0) cuts.push_back(at);
      }
      begin = end + 1;
    }
    cuts.push_back(piece.size());
  }
};

class BertSplit final : public LlamaSplit {
 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    const LlamaChars& chars = LlamaChars::get();
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const char32_t c = next_char(piece, at);
      const LlamaClass kind = chars[c];
      if (kind != LlamaClass::punctuation && !(c < 0x7F && kind == LlamaClass::symbol) && !is_bert_chinese(c)) continue;
      cuts.push_back(begin);
      cuts.push_back(at);
    }
    cuts.push_back(piece.size());
  }
};

class EachNumber final : public LlamaSplit {
 protected:
  void cut(std::string_view piece, Cuts& cuts) const override {
    const LlamaChars& chars = LlamaChars::get();
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const auto byte = static_cast<unsigned char>(piece[at]);
      const bool number =
          byte < 0x80 ? (++at, byte >= '0' && byte <= '9') : chars[next_char(piece, at)] == LlamaClass::number;
      if (!number) continue;
      cuts.push_back(begin);
      cuts.push_back(at);
    }
    cuts.push_back(piece.size());
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> make_llama_bert_split() { return std::make_unique<BertSplit>(); }

std::unique_ptr<PreTokenizer> make_llama_split(std::string_view pattern, const std::string& where) {
  if (pattern == kDigitGroups) return std::make_unique<DigitGroups>();
  if (pattern == kAsciiDigitGroups) return std::make_unique<AsciiDigitGroups>();
  if (pattern == "\\p{N}") return std::make_unique<EachNumber>();
  if (auto grammar = known_llama_grammar(pattern)) return make_grammar_split(*grammar);
  if (pattern.find("\\p{") != std::string_view::npos) return std::make_unique<Collapsed>(pattern, where);
  return std::make_unique<Wide>(pattern, where);
}

}  // namespace tern::tokenizer
