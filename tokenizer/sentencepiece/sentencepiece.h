// sentencepiece's model files: protocol buffers, read by hand with every length checked.
// Format: github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_impl.h"

namespace tern::tokenizer {

struct SentencePieceFile {
  enum class Model { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    int type = kNormal;
  };
  std::vector<Piece> pieces;
  Model model = Model::unigram;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool whitespace_as_suffix = false;
  std::string charsmap;
  TokenId unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  bool wraps_texts = false;  // <s> and </s> stand around a text, and </s></s> between two
};

// Throws Failure (kind data) naming `where` and the byte where the file goes wrong.
[[nodiscard]] SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& where);

// The ids that XLM-RoBERTa was trained with, fairseq's: <s>, <pad>, </s> and <unk> stand where the file has <unk>, <s>
// and
// </s>, all others come one later, and <mask> after them. Texts are wrapped.
[[nodiscard]] SentencePieceFile with_fairseq_ids(SentencePieceFile file, const std::string& where);

// The tokenizer with sentencepiece's ids. `config` (tokenizer_config.json) decides BOS and EOS: add_bos_token and
// add_eos_token where given, else BOS alone for BPE models and EOS alone for T5's class.
[[nodiscard]] std::shared_ptr<TokenizerImpl> make_sentencepiece_tokenizer(const SentencePieceFile& file,
                                                                          const TokenizerConfig& config,
                                                                          const std::string& where);

}  // namespace tern::tokenizer
