// The parts that a Tokenizer is made of. The readers (tokenizer.json, sentencepiece, GGUF) fill it; tokenizer.cpp runs
// it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/token_model.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

class TokenizerImpl {
 public:
  std::string where;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<TokenModel> model;
  PostProcessors post_processors;
  TokenDecoders decoders;
  bool replace_each_byte = false;    // of broken UTF-8, in place of each broken sequence
  bool longest_added_first = false;  // as llama.cpp has it: see AddedTokens::set_longest_first
  bool has_decoder = false;          // without one, tokens are joined by spaces
  TokenizerConfig config;

  // Adds tokens in order, giving new ones the ids that the reference gives them; `id` says what the file claims.
  void add_token(AddedToken token);
  // Call when all parts are there.
  void finish();
  // Of a finished tokenizer: special tokens beside those that it has.
  void add_special_tokens(const std::vector<std::string>& contents);

  [[nodiscard]] Encoded encode(std::string_view text, bool add_special_tokens, bool with_offsets,
                               bool parse_special = true) const;
  [[nodiscard]] PairEncoding encode_pair(std::string_view first, std::string_view second) const;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;
  [[nodiscard]] std::string_view piece(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view piece) const;
  [[nodiscard]] int vocab_size() const { return static_cast<int>(decoded_.size()); }
  [[nodiscard]] bool is_special(TokenId id) const;
  [[nodiscard]] const AddedTokens& added() const { return added_; }
  // How far the text of some ids holds whatever ids follow; its bytes from there on may change.
  [[nodiscard]] std::size_t settled_size(std::span<const TokenId> ids, std::string_view decoded) const;
  [[nodiscard]] bool skipped(TokenId id, bool skip_special_tokens) const;
  [[nodiscard]] StreamTail stream_tail() const { return tail_; }
  [[nodiscard]] bool is_fallback_byte(TokenId id) const {
    return fallback_byte(decoded_[static_cast<std::size_t>(id)]) >= 0;
  }
  // A GGUF's bytes and pieces that decoding treats apart are put here by its reader.
  void override_decoded(TokenId id, std::string text);
  // Makes roles' ids from their contents.
  void resolve_roles();

 private:
  class Lease;
  // Without what post-processors add.
  [[nodiscard]] Encoded tokens_of(std::string_view text, bool with_offsets, bool parse_special) const;
  void tokens_of(const AlignedText& text, Workspace& work, bool with_offsets, Encoded& out) const;

  AddedTokens added_;
  std::size_t next_added_ = SIZE_MAX;
  std::unordered_map<std::string, TokenId> added_ids_;
  std::unordered_set<std::string> special_;  // contents
  std::vector<std::string> names_;           // id -> piece as spelled
  std::vector<std::string> decoded_;         // id -> piece as the decoder gets it
  std::vector<std::uint8_t> kinds_;          // id -> bit 0: exists; 1: skipped with special tokens; 2: special
  bool track_always_ = false;
  bool trims_ = false;
  StreamTail tail_ = StreamTail::settled;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace tern::tokenizer
