#include "tokenizer/normalizer.h"

#include <algorithm>

#include "tokenizer/gguf/llama_chars.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

// One that maps characters: change() says how a split is rewritten, or that it stays.
class CharNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    std::vector<CharChange> changes;
    bool rewriting = false;
    for (std::size_t i = 0; i < text.splits().size(); ++i) {
      const Split split = text.splits()[i];
      changes.clear();
      std::size_t removed_first = 0;
      const bool changed = split.token < 0 && change(text.text(split), changes, removed_first);
      if (changed && !rewriting) {
        text.begin_rewrite();
        for (std::size_t j = 0; j < i; ++j) text.copy(text.splits()[j]);
        rewriting = true;
      }
      if (changed) {
        text.transform(split, changes, removed_first);
      } else if (rewriting) {
        text.copy(split);
      }
    }
    if (rewriting) text.commit();
  }

 protected:
  // Appends what `piece` becomes; false where it stays as it is.
  virtual bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const = 0;
};

// Drops the characters for which drop(c), replaces the others by map(c); false where neither does anything.
template <typename Drop, typename Map>
bool filter_map(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first, Drop drop,
                Map map) {
  bool changed = false;
  for (std::size_t at = 0; at < piece.size();) {
    const char32_t c = next_char(piece, at);
    if (drop(c)) {
      changed = true;
      if (changes.empty()) {
        ++removed_first;
      } else {
        --changes.back().change;
      }
      continue;
    }
    const char32_t to = map(c);
    changed = changed || to != c;
    changes.push_back({to, 0});
  }
  return changed;
}

constexpr auto kSame = [](char32_t c) { return c; };

class BertClean final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const override {
    const CharTable& table = CharTable::get();
    return filter_map(
        piece, changes, removed_first, [&](char32_t c) { return (table[c] & kBertRemoved) != 0; },
        [&](char32_t c) { return (table[c] & kWhite) != 0 ? U' ' : c; });
  }
};

class BertChinese final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t&) const override {
    bool changed = false;
    for (std::size_t at = 0; at < piece.size();) {
      const char32_t c = next_char(piece, at);
      if (is_bert_chinese(c)) {
        changed = true;
        changes.push_back({U' ', 0});
        changes.push_back({c, 1});
        changes.push_back({U' ', 1});
      } else {
        changes.push_back({c, 0});
      }
    }
    return changed;
  }
};

class DropFlagged final : public CharNormalizer {
 public:
  explicit DropFlagged(CharFlag flag) : flag_(flag) {}

 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const override {
    const CharTable& table = CharTable::get();
    return filter_map(
        piece, changes, removed_first, [&](char32_t c) { return (table[c] & flag_) != 0; }, kSame);
  }

 private:
  CharFlag flag_;
};

class Form final : public CharNormalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}

 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t&) const override {
    return normalize_form(piece, form_, changes);
  }

 private:
  NormalForm form_;
};

class Lowercase final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t&) const override {
    bool changed = false;
    for (std::size_t at = 0; at < piece.size();) {
      const char32_t c = next_char(piece, at);
      char32_t second = 0;
      const char32_t lower = to_lower(c, second);
      changed = changed || lower != c;
      changes.push_back({lower, 0});
      if (second != 0) changes.push_back({second, 1});
    }
    return changed;
  }
};

class LlamaLowercase final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const override {
    return filter_map(
        piece, changes, removed_first, [](char32_t) { return false; }, llama_lower);
  }
};

class LlamaBert final : public CharNormalizer {
 public:
  LlamaBert(bool lowercase, bool strip_accents) : lowercase_(lowercase), strip_accents_(strip_accents) {}

 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const override {
    const LlamaChars& chars = LlamaChars::get();
    const auto base = [&](char32_t c) { return strip_accents_ ? llama_base(c) : c; };
    const auto drop = [&](char32_t c) {
      if (c >= 0x20 && c < 0x7F) return false;
      const LlamaClass kind = chars[base(c)];
      return c == 0 || c == 0xFFFD || kind == LlamaClass::control || (strip_accents_ && kind == LlamaClass::mark);
    };
    const auto map = [&](char32_t c) { return lowercase_ ? llama_lower(base(c)) : base(c); };
    return filter_map(piece, changes, removed_first, drop, map);
  }

 private:
  bool lowercase_, strip_accents_;
};

class Nmt final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t& removed_first) const override {
    const auto drop = [](char32_t c) {
      return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    };
    const auto map = [](char32_t c) {
      const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      return blank ? U' ' : c;
    };
    return filter_map(piece, changes, removed_first, drop, map);
  }
};

class ByteLevelNormalizer final : public CharNormalizer {
 protected:
  bool change(std::string_view piece, std::vector<CharChange>& changes, std::size_t&) const override {
    for (const char c : piece) {
      changes.push_back({byte_to_char(static_cast<unsigned char>(c)), is_continuation(c) ? 1 : 0});
    }
    return true;
  }
};

// Several in a row.
class Chain final : public Normalizer {
 public:
  explicit Chain(Normalizers parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  Normalizers parts_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
        continue;
      }
      const std::string_view piece = text.text(split);
      std::size_t begin = 0;
      std::size_t end = piece.size();
      while (left_ && begin < end) {
        std::size_t next = begin;
        if (!is_white(next_char(piece, next))) break;
        begin = next;
      }
      while (right_ && end > begin) {
        const std::size_t last = previous_char(piece, end);
        std::size_t next = last;
        if (!is_white(next_char(piece, next))) break;
        end = last;
      }
      text.keep(split, begin, end);
    }
    text.commit();
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override {
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
      } else {
        text.prepend(split, prefix_);
      }
    }
    text.commit();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::string_view pattern, bool literal, std::string content, const std::string& where)
      : regex_(pattern, literal, where), content_(std::move(content)) {}
  [[nodiscard]] bool needs_alignment() const override { return regex_.may_match_empty(); }
  void apply(AlignedText& text) const override {
    std::vector<Range> matches;
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      if (split.token >= 0) {
        text.copy(split);
        continue;
      }
      matches.clear();
      regex_.find_all(text.text(split), matches);
      text.replace(split, matches, content_);
    }
    text.commit();
  }

 private:
  Regex regex_;
  std::string content_;
};

}  // namespace

bool is_bert_chinese(char32_t c) {
  if (c < 0x3400) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || c <= 0x4DBF || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::unique_ptr<Normalizer> make_bert_normalizer(const BertOptions& options) {
  Normalizers parts;
  if (options.clean_text) parts.push_back(std::make_unique<BertClean>());
  if (options.handle_chinese_chars) parts.push_back(std::make_unique<BertChinese>());
  if (options.strip_accents) {
    parts.push_back(make_form(NormalForm::nfd));
    parts.push_back(std::make_unique<DropFlagged>(kBertAccent));
  }
  if (options.lowercase) parts.push_back(make_lowercase());
  return std::make_unique<Chain>(std::move(parts));
}

std::unique_ptr<Normalizer> make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
std::unique_ptr<Normalizer> make_strip_accents() { return std::make_unique<DropFlagged>(kCombining); }
std::unique_ptr<Normalizer> make_form(NormalForm form) { return std::make_unique<Form>(form); }
std::unique_ptr<Normalizer> make_lowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<Normalizer> make_llama_lowercase() { return std::make_unique<LlamaLowercase>(); }
std::unique_ptr<Normalizer> make_llama_bert_normalizer(bool lowercase, bool strip_accents) {
  return std::make_unique<LlamaBert>(lowercase, strip_accents);
}
std::unique_ptr<Normalizer> make_nmt() { return std::make_unique<Nmt>(); }
std::unique_ptr<Normalizer> make_prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
std::unique_ptr<Normalizer> make_byte_level_normalizer() { return std::make_unique<ByteLevelNormalizer>(); }
std::unique_ptr<Normalizer> make_replace(std::string_view pattern, bool literal, std::string content,
                                         const std::string& where) {
  return std::make_unique<Replace>(pattern, literal, std::move(content), where);
}

std::string normalize(const Normalizers& normalizers, std::string_view text) {
  const bool track =
      std::any_of(normalizers.begin(), normalizers.end(), [](const auto& n) { return n->needs_alignment(); });
  AlignedText aligned(text, track);
  for (const auto& normalizer : normalizers) normalizer->apply(aligned);
  return std::string(aligned.text(aligned.splits()[0]));
}

}  // namespace tern::tokenizer
