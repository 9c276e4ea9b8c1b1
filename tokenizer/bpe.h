// Byte pair encoding, over characters or over bytes.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "tokenizer/token_model.h"

namespace tern::tokenizer {

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool keep_unknown = false;    // without unk_token, unknown characters part their neighbours before they are dropped
  bool whole_newlines = false;  // a run of newlines that is a token is that token
  bool wants_bytes = false;     // the text was to pass a ByteLevel pre-tokenizer: see takes_bytes()
};

class BpeModel final : public TokenModel {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;  // by rank
  BpeModel(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where);
  void tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const override;

  // True where pieces are to be given as plain bytes: the model maps them to the byte-level alphabet by itself. Only if
  // asked for, and either no byte can be unknown or unknown ones are kept apart.
  [[nodiscard]] bool takes_bytes() const { return bytes_; }

 private:
  void read_merges(const Merges& merges, const std::string& where);
  void prepare_bytes();
  [[nodiscard]] bool words_are_independent() const;
  // Appends a word's tokens, positions from `base`; returns the bytes that they cover.
  std::uint32_t word(std::string_view text, std::uint32_t base, Workspace& work, std::vector<Token>& out) const;
  void symbols_of(std::string_view text, Workspace& work) const;
  void character_symbols(std::string_view text, Workspace& work) const;
  [[nodiscard]] bool fallback_symbols(std::string_view character, Workspace& work) const;
  void merge_short(std::vector<Workspace::Symbol>& symbols) const;
  void merge_long(Workspace& work) const;
  void merge_parts(Workspace& work) const;
  void find_joins();

  BpeOptions options_;
  PairTable merges_;
  PairTable joins_;    // pairs of neighbouring first symbols that some merge reaches across
  bool cuts_ = false;  // long texts are cut between all others
  bool bytes_ = false;
  std::array<TokenId, 256> byte_ids_{};  // takes_bytes: symbols; else the <0x..> tokens or -1
  PieceTable raw_table_;                 // takes_bytes and ignore_merges: pieces by their plain bytes
  TokenId unk_id_ = -1;
  bool cut_words_ = false;  // no merge reaches over the start of a "▁" word: words are encoded alone
};

}  // namespace tern::tokenizer
