#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

struct Part {
  std::size_t begin, end;
  bool match;
};

// Fills the gaps between matches, so that the parts tile [begin, end).
void tile(const std::vector<Range>& matches, std::size_t begin, std::size_t end, std::vector<Part>& parts) {
  parts.clear();
  std::size_t last = begin;
  for (const auto& [first, second] : matches) {
    if (last != first) parts.push_back({last, first, false});
    parts.push_back({first, second, true});
    last = second;
  }
  if (last != end) parts.push_back({last, end, false});
}

// A match joins its neighbour where that is no match: folding as the reference does, from the left or the right.
template <typename Iterator, typename Join>
std::vector<Part> merge(Iterator first, Iterator last, Join join, bool contiguous) {
  std::vector<Part> out;
  bool previous = false;
  for (; first != last; ++first) {
    const bool joins = contiguous ? first->match == previous : first->match && !previous;
    if (joins && !out.empty()) {
      join(out.back(), *first);
    } else {
      out.push_back({first->begin, first->end, false});
    }
    previous = first->match;
  }
  return out;
}

class Splitter : public PreTokenizer {
 public:
  explicit Splitter(SplitBehavior behavior, bool invert = false) : behavior_(behavior), invert_(invert) {}

  void apply(AlignedText& text) const override {
    std::vector<Split> out;
    out.reserve(text.splits().size() * 2 + text.text().size() / 4);
    std::vector<Range> matches;
    std::vector<Part> parts;
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        out.push_back(split);
        continue;
      }
      matches.clear();
      find(text.text(split), split.begin, matches);
      if (behavior_ == SplitBehavior::isolated && tiles()) {
        for (const auto& [begin, end] : matches) out.push_back(text.slice(split, begin, end));
        continue;
      }
      tile(matches, split.begin, split.end, parts);
      if (invert_) {
        for (Part& part : parts) part.match = !part.match;
      }
      emit(text, split, parts, out);
    }
    text.splits() = std::move(out);
  }

 protected:
  // Appends the matches in `piece`, positions shifted by `base`.
  virtual void find(std::string_view piece, std::size_t base, std::vector<Range>& matches) const = 0;
  [[nodiscard]] virtual bool tiles() const { return false; }  // the matches always cover the text

 private:
  void emit(const AlignedText& text, const Split& split, std::vector<Part>& parts, std::vector<Split>& out) const {
    switch (behavior_) {
      case SplitBehavior::isolated:
        for (Part& part : parts) part.match = false;
        break;
      case SplitBehavior::removed:
        break;
      case SplitBehavior::contiguous:
        parts = merge(
            parts.begin(), parts.end(), [](Part& to, const Part& from) { to.end = from.end; }, true);
        break;
      case SplitBehavior::merged_with_previous:
        parts = merge(
            parts.begin(), parts.end(), [](Part& to, const Part& from) { to.end = from.end; }, false);
        break;
      case SplitBehavior::merged_with_next:
        parts = merge(
            parts.rbegin(), parts.rend(), [](Part& to, const Part& from) { to.begin = from.begin; }, false);
        std::reverse(parts.begin(), parts.end());
        break;
    }
    for (const Part& part : parts) {
      if (!part.match && part.begin < part.end) out.push_back(text.slice(split, part.begin, part.end));
    }
  }
  SplitBehavior behavior_;
  bool invert_;
};

class CharSplit final : public Splitter {
 public:
  CharSplit(CharTest test, SplitBehavior behavior) : Splitter(behavior), test_(test) {}

 protected:
  void find(std::string_view piece, std::size_t base, std::vector<Range>& matches) const override {
    const CharTable& table = CharTable::get();
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const char32_t c = next_char(piece, at);
      if (c == test_.character || (table[c] & test_.flags) != 0) matches.emplace_back(base + begin, base + at);
    }
  }

 private:
  CharTest test_;
};

class GrammarSplit final : public Splitter {
 public:
  GrammarSplit(const SplitGrammar& grammar, SplitBehavior behavior, bool invert)
      : Splitter(behavior, invert), grammar_(grammar), tiles_(!invert) {}

 protected:
  void find(std::string_view piece, std::size_t base, std::vector<Range>& matches) const override {
    scan_splits(grammar_, piece, base, matches);
  }
  [[nodiscard]] bool tiles() const override { return tiles_; }

 private:
  SplitGrammar grammar_;
  bool tiles_;
};

class RegexSplit final : public Splitter {
 public:
  RegexSplit(std::string_view pattern, bool literal, SplitBehavior behavior, bool invert, const std::string& where)
      : Splitter(behavior, invert), regex_(pattern, literal, where) {}

 protected:
  void find(std::string_view piece, std::size_t base, std::vector<Range>& matches) const override {
    const std::size_t first = matches.size();
    regex_.find_all(piece, matches);
    for (std::size_t i = first; i < matches.size(); ++i) {
      matches[i].first += base;
      matches[i].second += base;
    }
  }

 private:
  Regex regex_;
};

class WordsAndSymbols final : public Splitter {
 public:
  WordsAndSymbols() : Splitter(SplitBehavior::removed, true) {}

 protected:
  void find(std::string_view piece, std::size_t base, std::vector<Range>& matches) const override {
    const CharTable& table = CharTable::get();
    const auto kind = [&](char32_t c) { return (table[c] & kWord) != 0 ? 1 : (table[c] & kWhite) != 0 ? 0 : 2; };
    int last = 0;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const int now = kind(next_char(piece, at));
      if (now != 0 && now == last) {
        matches.back().second = base + at;
      } else if (now != 0) {
        matches.emplace_back(base + begin, base + at);
      }
      last = now;
    }
  }
};

class UnicodeScripts final : public PreTokenizer {
 public:
  void apply(AlignedText& text) const override {
    std::vector<Split> out;
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        out.push_back(split);
        continue;
      }
      const std::string_view piece = text.text(split);
      std::size_t begin =
          SIZE_MAX;  // characters of no script before the first that has one are lost, as in the reference
      int last = -1;
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t here = at;
        const int script = merged_script(next_char(piece, at));
        if (script == 0) continue;
        if (script != last) {
          if (begin != SIZE_MAX) out.push_back(text.slice(split, split.begin + begin, split.begin + here));
          begin = here;
        }
        last = script;
      }
      if (begin != SIZE_MAX) out.push_back(text.slice(split, split.begin + begin, split.end));
    }
    text.splits() = std::move(out);
  }

 private:
  // The table was made from what the reference answers, so Japanese is one script in it and the space has none.
  static int merged_script(char32_t c) { return script_of(c); }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t characters) : characters_(characters) {}
  void apply(AlignedText& text) const override {
    std::vector<Split> out;
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        out.push_back(split);
        continue;
      }
      const std::string_view piece = text.text(split);
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t begin = at;
        for (std::size_t i = 0; i < characters_ && at < piece.size(); ++i) (void)next_char(piece, at);
        out.push_back(text.slice(split, split.begin + begin, split.begin + at));
      }
    }
    text.splits() = std::move(out);
  }

 private:
  std::size_t characters_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme, bool split)
      : scheme_(scheme),
        cut_(split ? std::make_unique<CharSplit>(CharTest{0, replacement}, SplitBehavior::merged_with_next) : nullptr) {
    append_char(replacement_, replacement);
  }
  [[nodiscard]] bool rewrites() const override { return true; }

  void apply(AlignedText& text) const override {
    std::vector<Range> spaces;
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
        continue;
      }
      const std::string_view piece = text.text(split);
      spaces.clear();
      for (std::size_t at = piece.find(' '); at != std::string_view::npos; at = piece.find(' ', at + 1)) {
        spaces.emplace_back(at, at + 1);
      }
      text.replace(split, spaces, replacement_);
    }
    text.commit();
    if (scheme_ != PrependScheme::never) {
      text.begin_rewrite();
      for (const Split& split : text.splits()) {
        const bool wanted = split.token < 0 && !text.text(split).starts_with(replacement_) &&
                            (scheme_ == PrependScheme::always || split.original == 0);
        if (wanted) {
          text.prepend(split, replacement_);
        } else {
          text.copy(split);
        }
      }
      text.commit();
    }
    if (cut_ != nullptr) cut_->apply(text);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<CharSplit> cut_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool map_bytes)
      : add_prefix_space_(add_prefix_space), map_bytes_(map_bytes) {
    if (use_regex) cut_ = std::make_unique<GrammarSplit>(*known_grammar(kGpt2Pattern), SplitBehavior::isolated, false);
  }
  [[nodiscard]] bool rewrites() const override { return add_prefix_space_ || map_bytes_; }

  void apply(AlignedText& text) const override {
    if (add_prefix_space_) add_spaces(text);
    if (cut_ != nullptr) cut_->apply(text);
    if (!map_bytes_) return;
    text.begin_rewrite();
    std::vector<CharChange> changes;
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
        continue;
      }
      changes.clear();
      for (const char c : text.text(split)) {
        changes.push_back({byte_to_char(static_cast<unsigned char>(c)), is_continuation(c) ? 1 : 0});
      }
      text.transform(split, changes, 0);
    }
    text.commit();
  }

 private:
  static void add_spaces(AlignedText& text) {
    const auto wanted = [&](const Split& split) { return split.token < 0 && !text.text(split).starts_with(' '); };
    if (std::none_of(text.splits().begin(), text.splits().end(), wanted)) return;
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (wanted(split)) {
        text.prepend(split, " ");
      } else {
        text.copy(split);
      }
    }
    text.commit();
  }
  bool add_prefix_space_;
  bool map_bytes_;
  std::unique_ptr<GrammarSplit> cut_;
};

// GPT-2's table: printable Latin-1 stands for itself, the other bytes take U+0100 onwards.
struct ByteMap {
  std::array<char32_t, 256> chars{};
  std::array<std::int16_t, 0x144> bytes{};
  ByteMap() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      chars[static_cast<std::size_t>(b)] = c;
      bytes[c] = static_cast<std::int16_t>(b);
    }
  }
};

const ByteMap& byte_map() {
  static const ByteMap map;
  return map;
}

}  // namespace

char32_t byte_to_char(unsigned char byte) { return byte_map().chars[byte]; }

int char_to_byte(char32_t c) { return c < 0x144 ? byte_map().bytes[c] : -1; }

std::unique_ptr<PreTokenizer> make_char_split(CharTest test, SplitBehavior behavior) {
  return std::make_unique<CharSplit>(test, behavior);
}

std::unique_ptr<PreTokenizer> make_regex_split(std::string_view pattern, bool literal, SplitBehavior behavior,
                                               bool invert, const std::string& where) {
  if (!literal) {
    if (const auto grammar = known_grammar(pattern)) return std::make_unique<GrammarSplit>(*grammar, behavior, invert);
  }
  return std::make_unique<RegexSplit>(pattern, literal, behavior, invert, where);
}

std::unique_ptr<PreTokenizer> make_grammar_split(const SplitGrammar& grammar) {
  return std::make_unique<GrammarSplit>(grammar, SplitBehavior::isolated, false);
}

std::unique_ptr<PreTokenizer> make_words_and_symbols() { return std::make_unique<WordsAndSymbols>(); }
std::unique_ptr<PreTokenizer> make_unicode_scripts() { return std::make_unique<UnicodeScripts>(); }
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t n) { return std::make_unique<FixedLength>(n); }
std::unique_ptr<PreTokenizer> make_metaspace(char32_t replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(replacement, scheme, split);
}
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map_bytes) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex, map_bytes);
}

}  // namespace tern::tokenizer
