// The unigram language model: the split of a text with the highest sum of scores (Kudo 2018).
#pragma once

#include <array>
#include <optional>

#include "tokenizer/token_model.h"

namespace tern::tokenizer {

// Byte strings with ids; all of them that are prefixes of a text are found in one walk.
class PrefixTrie {
 public:
  // `entries` need not be sorted; of equal strings the last wins.
  void build(std::vector<std::pair<std::string_view, TokenId>> entries);
  // Calls f(length, id) for each entry that `text` begins with, shortest first.
  template <typename F>
  void each_prefix(std::string_view text, F&& f) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (ids_[node] >= 0) f(i + 1, ids_[node]);
    }
  }

 private:
  [[nodiscard]] std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    if (node == 0) return root_[byte];
    std::uint32_t low = first_child_[node];
    std::uint32_t high = first_child_[node + 1];
    while (high - low > 8) {
      const std::uint32_t middle = (low + high) / 2;
      (labels_[middle] <= byte ? low : high) = middle;
    }
    for (; low < high; ++low) {
      if (labels_[low] == byte) return low;
    }
    return 0;
  }
  // Nodes in breadth-first order, so that the children of one are neighbours, sorted by label; node 0 is the root.
  std::vector<std::uint32_t> first_child_;
  std::vector<unsigned char> labels_;
  std::vector<TokenId> ids_;
  std::array<std::uint32_t, 256> root_{};
};

struct UnigramOptions {
  std::optional<TokenId> unk_id;
  bool byte_fallback = false;
  // Unless false, neighbouring unknown characters whose joined text is a token become that token, as in tokenizer.json.
  bool joined_unknowns = true;
  std::optional<double> unk_score;  // of an unknown character; default: 10 below the lowest of all scores
  bool single_precision = false;    // sums of scores, as in sentencepiece
  std::vector<bool> hidden;         // by id: pieces that never stand for their own text (bytes, control); empty: none
};

class UnigramModel final : public TokenModel {
 public:
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options, const std::string& where);
  void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const override;
  [[nodiscard]] std::string value(std::string_view piece, const Token& token) const override;

 private:
  void best_path(std::string_view piece, Workspace& work) const;
  struct Part {
    std::uint32_t begin, end;
    TokenId id;  // -1: unknown
  };
  void add(std::string_view piece, const Part& part, std::vector<Token>& out) const;
  std::vector<double> scores_;
  UnigramOptions options_;
  PrefixTrie trie_;
  double unk_score_ = 0;
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace tern::tokenizer
