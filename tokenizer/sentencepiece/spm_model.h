// sentencepiece's BPE as llama.cpp runs it: of all neighbouring pairs whose join is a token, the best-scored join
// first.
#pragma once

#include <array>

#include "tokenizer/sentencepiece/spm_normalizer.h"
#include "tokenizer/token_model.h"

namespace tern::tokenizer {

// What sentencepiece itself knows beyond llama.cpp.
struct SpmOptions {
  std::vector<bool> hidden;          // by id: pieces that no text becomes (control, bytes); empty: none
  std::vector<std::string> symbols;  // user-defined: found first, never joined
  bool byte_fallback = true;
};

class SpmModel final : public TokenModel {
 public:
  // `scores` by id, higher joins first; of equal scores the leftmost. Characters outside the vocabulary become <0x..>
  // tokens, or `unk_id` where those are missing too.
  SpmModel(Vocabulary vocabulary, std::vector<float> scores, TokenId unk_id, SpmOptions options = {});
  void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const override;

 private:
  void word(std::string_view text, std::uint32_t base, Workspace& work, std::vector<Token>& out) const;
  void join(std::string_view text, Workspace& work) const;
  void add_bytes(std::string_view text, std::uint32_t at, std::vector<Token>& out) const;
  [[nodiscard]] TokenId find(std::string_view text) const;
  std::vector<bool> hidden_;
  SymbolMatcher symbols_;
  std::vector<std::uint32_t> ranks_;  // by id; 0 is the best score, equal scores share a rank
  std::array<TokenId, 256> byte_ids_{};
  TokenId unk_id_;
  bool cut_words_ = false;  // no token reaches over the start of a "▁" word
};

}  // namespace tern::tokenizer
