// Tokens that are found in the text before the model sees it: special tokens and those added to a vocabulary later.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace tern::tokenizer {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  std::string normalized_content;  // what the normalizer makes of it, where `normalized`
  bool single_word = false;        // only where no word character touches it
  bool lstrip = false;             // takes the white space before it along
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalized text
  bool special = false;
};

// Finds the leftmost, then longest, of a set of byte strings. Steps per byte of text are bounded by the longest string.
class LongestMatcher {
 public:
  void add(std::string_view text, int value);
  [[nodiscard]] bool empty() const { return nodes_.size() <= 1; }
  // The first match at or after `from`: its begin, end and value; begin == npos where there is none.
  struct Match {
    std::size_t begin, end;
    int value;
  };
  // `wanted`, if given, says by value which strings count.
  [[nodiscard]] Match find(std::string_view text, std::size_t from, const std::vector<bool>* wanted = nullptr) const;
  // Calls f(begin, value) for each string at each place of `text`.
  template <typename F>
  void each(std::string_view text, F&& f) const {
    for (std::size_t begin = 0; begin < text.size(); ++begin) {
      if (!first_[static_cast<unsigned char>(text[begin])]) continue;
      std::uint32_t at = 0;
      for (std::size_t i = begin; i < text.size(); ++i) {
        const std::int64_t child = child_of(at, static_cast<unsigned char>(text[i]));
        if (child < 0) break;
        at = static_cast<std::uint32_t>(child);
        if (nodes_[at].value >= 0) f(begin, nodes_[at].value);
      }
    }
  }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // sorted by byte
    int value = -1;
  };
  [[nodiscard]] std::int64_t child_of(std::uint32_t node, unsigned char byte) const;  // -1: none
  std::vector<Node> nodes_{1};
  std::array<bool, 256> first_{};
  int only_first_ = -1;  // the one byte that all begin with; -1: none yet, -2: several
};

class AddedTokens {
 public:
  void add(AddedToken token);
  [[nodiscard]] const std::vector<AddedToken>& all() const { return tokens_; }
  [[nodiscard]] bool any_normalized() const { return !normalized_.empty(); }
  // Cuts out the tokens that are looked for before (or after) normalization; the special ones only if `parse_special`.
  void split(AlignedText& text, bool normalized, bool parse_special = true) const;
  // Of tokens that overlap, the longest wins wherever it begins, and only ASCII white space is stripped, as in
  // llama.cpp; else the one that begins first. Call it when all are there.
  void set_longest_first();

 private:
  void split_one(const AlignedText& text, const Split& split, const LongestMatcher& matcher,
                 const std::vector<bool>* wanted, std::vector<Split>& out) const;
  void split_longest_first(const AlignedText& text, const Split& split, bool parse_special,
                           std::vector<Split>& out) const;
  std::vector<AddedToken> tokens_;
  std::vector<bool> not_special_;   // by index
  std::vector<std::size_t> order_;  // by index: its place among all, longest first; empty: leftmost first
  LongestMatcher plain_;
  LongestMatcher normalized_;
};

}  // namespace tern::tokenizer
