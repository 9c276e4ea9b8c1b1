// Tokens that are found in the text before the model sees it: special tokens and those added to a vocabulary later.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.h"

namespace tern::text {

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
  [[nodiscard]] Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // sorted by byte
    int value = -1;
  };
  std::vector<Node> nodes_{1};
  std::array<bool, 256> first_{};
  int only_first_ = -1;  // the one byte that all begin with; -1: none yet, -2: several
};

class AddedTokens {
 public:
  void add(AddedToken token);
  [[nodiscard]] const std::vector<AddedToken>& all() const { return tokens_; }
  [[nodiscard]] bool any_normalized() const { return !normalized_.empty(); }
  // Cuts out the tokens that are looked for before (or after) normalization.
  void split(AlignedText& text, bool normalized) const;

 private:
  void split_one(const AlignedText& text, const Split& split, const LongestMatcher& matcher,
                 std::vector<Split>& out) const;
  std::vector<AddedToken> tokens_;
  LongestMatcher plain_;
  LongestMatcher normalized_;
};

}  // namespace tern::text
