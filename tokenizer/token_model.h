// The models of tokenizer.json: from one pre-tokenized piece of text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/piece_table.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// "▁": what stands for a space in the vocabularies of sentencepiece, and of those that followed it.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// A token and the bytes of its piece that it covers.
struct Token {
  TokenId id;
  std::uint32_t begin;
  std::uint32_t end;
};

// Tokens of words met before. Bounded: it starts anew when full. One thread uses one at a time.
class WordCache {
 public:
  WordCache();
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t key = 0;
    std::uint32_t key_size = 0;  // 0: empty (words are not)
    std::uint32_t tokens = 0;
    std::uint32_t count = 0;
  };
  // The word's entry, or null; `hash` is hash_bytes(word). Pointers hold until the next put().
  [[nodiscard]] const Entry* find(std::string_view word, std::uint64_t hash) const {
    for (std::size_t i = hash & kMask;; i = (i + 1) & kMask) {
      const Entry& entry = entries_[i];
      if (entry.key_size == 0) return nullptr;
      if (entry.hash == hash && entry.key_size == word.size() &&
          std::memcmp(keys_.data() + entry.key, word.data(), word.size()) == 0) {
        return &entry;
      }
    }
  }
  [[nodiscard]] const Token* tokens(const Entry& entry) const { return tokens_.data() + entry.tokens; }
  void put(std::string_view word, std::uint64_t hash, const Token* tokens, std::size_t count);
  static constexpr std::size_t kLongest = 128;  // bytes of a word that is kept

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 16;
  static constexpr std::size_t kMask = kSlots - 1;
  static constexpr std::size_t kMostTokens = std::size_t{1} << 18;  // of all words: 3 MiB
  std::vector<Entry> entries_;
  std::vector<char> keys_;
  std::vector<Token> tokens_;
  std::size_t used_ = 0;
};

// What a call of tokenize may write to; reused from call to call.
struct Workspace {
  WordCache cache;
  std::vector<Token> tokens;  // of the piece in hand
  struct Symbol {
    TokenId id;
    std::uint32_t size;  // bytes; 0 once merged into the symbol before
    std::int32_t previous, next;
    std::uint32_t rank;  // of the merge with the next symbol
    TokenId merged;
  };
  std::vector<Symbol> symbols;
  std::vector<Symbol> whole;  // those of a text that is merged in parts
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    TokenId merged;
  };
  std::vector<Candidate> heap;
  struct Best {  // of the paths that end at a byte
    double score;
    std::uint32_t begin;  // UINT32_MAX: none yet
    TokenId id;
  };
  std::vector<Best> best;
  std::string scratch;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of `piece` (not empty) to `out`. Throws Failure where the vocabulary cannot express it.
  virtual void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const = 0;
  // The text of a token of `piece` as the reference names it.
  [[nodiscard]] virtual std::string value(std::string_view piece, const Token& token) const;
  [[nodiscard]] const PieceTable& table() const { return table_; }
  // Vocabulary entries by id; "" where there is none.
  [[nodiscard]] const std::vector<std::string>& pieces() const { return pieces_; }
  [[nodiscard]] bool has_id(TokenId id) const;

 protected:
  void set_vocabulary(std::vector<std::pair<std::string, TokenId>> vocabulary);
  PieceTable table_;
  std::vector<std::string> pieces_;
  std::vector<bool> present_;
};

using Vocabulary = std::vector<std::pair<std::string, TokenId>>;

}  // namespace tern::tokenizer
