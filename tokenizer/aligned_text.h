// A text on its way to tokens: its normalized form, the splits of it, and where each of its bytes came from.
//
// The rules of alignment are those of Hugging Face's NormalizedString, oddities included, as offsets must agree with
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/unicode.h"

namespace tern::tokenizer {

// The bytes of the original that a byte of the normalized text stands for.
struct Align {
  std::uint32_t begin;
  std::uint32_t end;
};

struct Split {
  std::uint32_t begin;  // in text()
  std::uint32_t end;
  std::uint32_t original;  // where the split's share of the original begins
  TokenId token;           // an added token, or -1
};

class AlignedText {
 public:
  // `original` is valid UTF-8 and outlives this; `track` keeps alignments, without which only ids can be had.
  AlignedText(std::string_view original, bool track);

  [[nodiscard]] std::string_view text() const { return identity_ ? original_ : std::string_view(buffer_); }
  [[nodiscard]] std::string_view text(const Split& split) const {
    return text().substr(split.begin, split.end - split.begin);
  }
  [[nodiscard]] std::string_view original() const { return original_; }
  [[nodiscard]] bool identity() const { return identity_; }  // text() is the original
  [[nodiscard]] std::vector<Split>& splits() { return splits_; }
  [[nodiscard]] const std::vector<Split>& splits() const { return splits_; }

  // A part of a split, with its own share of the original. `begin`, `end` count from the start of text().
  [[nodiscard]] Split slice(const Split& split, std::size_t begin, std::size_t end, TokenId token = -1) const;
  // Original bytes of [begin, end) of a split, counted from its start.
  [[nodiscard]] std::pair<std::size_t, std::size_t> original_range(const Split& split, std::size_t begin,
                                                                   std::size_t end) const;

  // Rewrites splits: begin(), then for each split in order copy() or one of the changes, then commit().
  void begin_rewrite();
  void copy(const Split& split);
  // The whole split becomes `changes`; `removed_first` characters at its start were dropped before the first change.
  void transform(const Split& split, const std::vector<CharChange>& changes, std::size_t removed_first);
  // The characters in [begin, end) of the split (counted from its start) alone remain.
  void keep(const Split& split, std::size_t begin, std::size_t end);
  void prepend(const Split& split, std::string_view prefix);
  // Each of `matches` (ranges from the split's start, in order) is replaced by `content`.
  void replace(const Split& split, const std::vector<std::pair<std::size_t, std::size_t>>& matches,
               std::string_view content);
  void commit();

 private:
  void materialise();
  void add(std::string_view bytes, const Align* from);
  void add_same(std::string_view bytes, Align align);
  void close(const Split& split, std::size_t begin);

  std::string_view original_;
  bool track_;
  bool identity_ = true;
  std::string buffer_;
  std::vector<Align> align_;  // per byte of buffer_, if tracked and not identity
  std::vector<Split> splits_;
  std::string next_buffer_;
  std::vector<Align> next_align_;
  std::vector<Split> next_splits_;
};

}  // namespace tern::tokenizer
