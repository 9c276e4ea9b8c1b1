// WordPiece and WordLevel: models that look whole words, or their longest parts, up in the vocabulary.
#pragma once

#include <string>

#include "tokenizer/token_model.h"

namespace tern::tokenizer {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  std::string word_prefix;                     // before the first part (GGUF's vocabularies mark that one)
  std::size_t max_input_chars_per_word = 100;  // longer words are unknown
};

// Greedy longest match from the left; a word with an unknown part is unknown as a whole.
class WordPieceModel final : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);
  void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const override;

 private:
  [[nodiscard]] bool split(std::string_view piece, Workspace& work, std::vector<Token>& out) const;
  void add_unknown(std::string_view piece, std::vector<Token>& out) const;
  WordPieceOptions options_;
  TokenId unk_id_;
  std::size_t longest_ = 0;  // bytes of the longest entry
};

class WordLevelModel final : public TokenModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token);
  void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const override;

 private:
  std::string unk_token_;
  TokenId unk_id_;
};

}  // namespace tern::tokenizer
