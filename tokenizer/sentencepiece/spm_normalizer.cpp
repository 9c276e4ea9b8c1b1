#include "tokenizer/sentencepiece/spm_normalizer.h"

#include "tokenizer/sentencepiece/precompiled.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

constexpr char32_t kMeta = 0x2581;

// Collects what a split becomes: characters read, and characters written in their place.
class Rewriter {
 public:
  explicit Rewriter(std::vector<CharChange>& changes) : changes_(changes) {}
  void read(std::string_view part) {
    for (std::size_t at = 0; at < part.size(); ++unplaced_) (void)next_char(part, at);
  }
  void write(char32_t c) {
    changes_.push_back({c, unplaced_ == 0 ? 1 : 1 - unplaced_});
    unplaced_ = 0;
  }
  // Ends the split; returns how many characters were dropped with nothing before them.
  std::size_t finish() {
    const auto dropped = static_cast<std::size_t>(unplaced_);
    if (changes_.empty()) return dropped;
    changes_.back().change -= unplaced_;
    return 0;
  }

 private:
  std::vector<CharChange>& changes_;
  int unplaced_ = 0;
};

// Each prefix of the symbols that ends between characters: llama.cpp takes over the longest of those.
std::vector<std::string> with_prefixes(const std::vector<std::string>& symbols) {
  std::vector<std::string> all;
  for (const std::string& symbol : symbols) {
    for (std::size_t at = 0; at < symbol.size();) {
      (void)next_char(symbol, at);
      all.push_back(symbol.substr(0, at));
    }
  }
  return all;
}

class SpmNormalizer final : public Normalizer {
 public:
  SpmNormalizer(const SpmNormalizerOptions& options, const std::string& where)
      : map_(options.charsmap, where),
        symbols_(options.llama ? with_prefixes(options.symbols) : options.symbols),
        options_(options) {
    options_.charsmap = {};
    options_.symbols.clear();
  }

  void apply(AlignedText& text) const override {
    std::vector<CharChange> changes;
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
        continue;
      }
      changes.clear();
      Rewriter out(changes);
      if (options_.llama) {
        llama(text.text(split), out);
      } else {
        sentencepiece(text.text(split), out);
      }
      text.transform(split, changes, out.finish());
    }
    text.commit();
  }

 private:
  // What the text at `at` is replaced by; `at` moves past it.
  [[nodiscard]] std::string_view next(std::string_view piece, std::size_t& at) const {
    const std::string_view rest = piece.substr(at);
    if (const std::size_t size = symbols_.match(rest)) return at += size, rest.substr(0, size);
    std::string_view replacement;
    const std::size_t size = map_.find(rest, true, replacement);
    // A map may hold parts of characters only if it is damaged.
    if (size > 0 && (size == rest.size() || !is_continuation(rest[size]))) return at += size, replacement;
    const std::size_t begin = at;
    (void)next_char(piece, at);
    return piece.substr(begin, at - begin);
  }

  void sentencepiece(std::string_view piece, Rewriter& out) const {
    const bool trim = options_.remove_extra_whitespaces;
    std::size_t at = 0;
    while (trim && at < piece.size()) {
      std::size_t after = at;
      if (next(piece, after) != " ") break;
      out.read(piece.substr(at, after - at));
      at = after;
    }
    if (at == piece.size()) return;
    std::size_t spaces = 0;  // held back where those at the end are dropped, the dummy and a "▁" of the text among them
    const auto put = [&](char32_t c) {
      if (trim && c == kMeta) {
        ++spaces;
        return;
      }
      for (; spaces > 0; --spaces) out.write(kMeta);
      out.write(c);
    };
    const bool dummy = options_.add_dummy_prefix;
    if (dummy && !options_.whitespace_as_suffix) put(kMeta);
    bool after_space = trim;
    while (at < piece.size()) {
      const std::size_t begin = at;
      std::string_view part = next(piece, at);
      while (after_space && part.starts_with(' ')) part.remove_prefix(1);
      if (!part.empty()) after_space = part.ends_with(' ');
      if (!trim) after_space = false;
      out.read(piece.substr(begin, at - begin));
      for (std::size_t i = 0; i < part.size();) {
        const char32_t c = next_char(part, i);
        put(c == ' ' ? kMeta : c);
      }
    }
    if (dummy && options_.whitespace_as_suffix) out.write(kMeta);
  }

  // llama.cpp's own: the dummy goes before the first character that is no space, and where extra spaces are removed
  // each word has one before it, the first too.
  void llama(std::string_view piece, Rewriter& out) const {
    const bool merge = options_.remove_extra_whitespaces;
    bool in_word = false;
    bool prefixed = !options_.add_dummy_prefix;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const std::string_view part = next(piece, at);
      out.read(piece.substr(begin, at - begin));
      for (std::size_t i = 0; i < part.size();) {
        const char32_t c = next_char(part, i);
        if (c == ' ') {
          in_word = false;
          if (!merge) out.write(kMeta);
          continue;
        }
        if (!in_word && (merge || !prefixed)) {
          out.write(kMeta);
          prefixed = true;
        }
        in_word = true;
        out.write(c);
      }
    }
  }

  CharsMap map_;
  SymbolMatcher symbols_;
  SpmNormalizerOptions options_;
};

}  // namespace

SymbolMatcher::SymbolMatcher(const std::vector<std::string>& symbols) : empty_(symbols.empty()) {
  std::vector<std::pair<std::string_view, TokenId>> entries;
  for (const std::string& symbol : symbols) {
    if (!symbol.empty()) entries.emplace_back(symbol, 0);
  }
  trie_.build(std::move(entries));
}

std::size_t SymbolMatcher::match(std::string_view text) const {
  std::size_t longest = 0;
  if (!empty_) trie_.each_prefix(text, [&](std::size_t size, TokenId) { longest = size; });
  return longest;
}

std::unique_ptr<Normalizer> make_spm_normalizer(const SpmNormalizerOptions& options, const std::string& where) {
  return std::make_unique<SpmNormalizer>(options, where);
}

}  // namespace tern::tokenizer
