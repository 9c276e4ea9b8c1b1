// Text to token ids and back, with the ids that the reference implementations give.
//
// A tokenizer comes from a Hugging Face directory (tokenizer.json, else a sentencepiece tokenizer.model) or from the
// vocabulary inside a GGUF file. Ids, offsets and decoded text of the first kind equal Hugging Face's `tokenizers`;
// ids of the second kind equal llama.cpp's.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::tokenizer {

using TokenId = std::int32_t;

// Tokens of one text; both vectors have the same length.
struct Encoding {
  std::vector<TokenId> ids;
  // [begin, end) in code points of the input, as Hugging Face reports them: tokens that a post-processor adds are (0,
  // 0). Each maximal broken part of UTF-8 counts as one code point (U+FFFD), as it does in Python's errors="replace".
  std::vector<std::pair<std::uint32_t, std::uint32_t>> offsets;
};

// Tokens of two texts that a model reads together; both vectors have the same length.
struct PairEncoding {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> type_ids;  // which text a token is of, as the tokenizer counts them (BERT: 0, then 1)
};

// A token with a role. Absent: empty content, id -1. A content that the vocabulary lacks has id -1.
struct RoleToken {
  std::string content;
  TokenId id = -1;
};

// What tokenizer_config.json, special_tokens_map.json, chat_template.jinja (or a GGUF's metadata) say beside the
// vocabulary.
struct TokenizerConfig {
  RoleToken bos, eos, unk, pad;
  std::string chat_template;                                              // the one named "default", or ""
  std::vector<std::pair<std::string, std::string>> named_chat_templates;  // all others, by name ("tool_use", ...)
  std::int64_t model_max_length = 0;                                      // tokens; 0 where unknown or absurdly large
  bool clean_up_tokenization_spaces = false;
  std::string tokenizer_class;
  std::vector<std::pair<std::string, std::string>> extra;  // every other key, its value as JSON text
};

// The vocabulary inside a GGUF file, by the metadata keys that fill it. Vectors but `tokens` may be empty.
struct GgufVocabulary {
  std::string where;                // names the file in errors
  std::string model;                // tokenizer.ggml.model: gpt2, gemma4, whitespace, llama, bert, t5
  std::string pre;                  // tokenizer.ggml.pre: smollm, llama-bpe, qwen2, ...
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens
  std::vector<float> scores;        // tokenizer.ggml.scores
  std::vector<std::int32_t>
      token_types;  // tokenizer.ggml.token_type: 1 normal, 2 unknown, 3 control, 4 user, 5 unused, 6 byte
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right"
  std::optional<TokenId> bos_id, eos_id, unk_id, pad_id, sep_id, cls_id, mask_id;  // tokenizer.ggml.*_token_id
  std::optional<bool> add_bos, add_eos, add_sep;                                   // tokenizer.ggml.add_*_token
  std::optional<bool> add_space_prefix;                                            // tokenizer.ggml.add_space_prefix
  std::optional<bool> remove_extra_whitespaces;   // tokenizer.ggml.remove_extra_whitespaces
  std::string precompiled_charsmap;               // tokenizer.ggml.precompiled_charsmap, raw bytes
  std::optional<bool> lowercase, strip_accents;   // tokenizer.ggml.normalizer.*
  std::string name, architecture;                 // general.*: some models' tokens take white space along
  std::array<std::optional<TokenId>, 6> fim_ids;  // tokenizer.ggml.fim_{pre,suf,mid,pad,rep,sep}_token_id
  std::string chat_template;                      // tokenizer.chat_template
  std::vector<std::pair<std::string, std::string>> named_chat_templates;  // tokenizer.chat_template.NAME
};

class TokenizerImpl;

// Immutable once made: a copy shares the tables, and any number of threads may call the const methods at once.
class Tokenizer {
 public:
  // A directory with tokenizer.json (or tokenizer.model) and, if present, tokenizer_config.json,
  // special_tokens_map.json and chat_template.jinja. Fails with ErrorKind::data where a file is absent, malformed or
  // holds an unknown component.
  // `new_special_tokens`: added to those of the files, with the ids that transformers' add_special_tokens gives them.
  [[nodiscard]] static Result<Tokenizer> from_directory(const std::filesystem::path& directory,
                                                        const std::vector<std::string>& new_special_tokens = {});
  // tokenizer.json's own text; `where` names it in errors.
  [[nodiscard]] static Result<Tokenizer> from_json(std::string_view json, std::string where);
  // A sentencepiece model file's own bytes (unigram or BPE), with the ids that HF's slow tokenizers' conversion gives.
  [[nodiscard]] static Result<Tokenizer> from_sentencepiece(std::string_view model, std::string where);
  [[nodiscard]] static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  // Token ids of `text`. Special tokens written out in the text are recognised, unless `parse_special` is false
  // (transformers' split_special_tokens, llama.cpp's parse_special); `add_special_tokens` runs the post-processor (BOS,
  // EOS, [CLS]). Bytes that are not UTF-8 are read as U+FFFD. Linear in the length of text. Truncation and padding that
  // tokenizer.json asks for are the caller's business, as in transformers. Throws Failure where the reference has no
  // answer either: an unknown word without an unknown token, a regular expression beyond its limits, a text of 2 GiB.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special_tokens,
                                            bool parse_special = true) const;
  [[nodiscard]] Encoding encode_with_offsets(std::string_view text, bool add_special_tokens) const;
  // Two texts as the tokenizer's file joins them, with the special tokens around: "<s> first </s></s> second </s>".
  // Throws Failure (data) as encode, and where the file says no way to join two.
  [[nodiscard]] PairEncoding encode_pair(std::string_view first, std::string_view second) const;
  // Text of the ids; an id outside the vocabulary contributes nothing. Valid UTF-8: broken byte runs become U+FFFD.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // The token as the vocabulary spells it ("Ġthe", "▁the", "<0x0A>"); "" for an id outside the vocabulary.
  [[nodiscard]] std::string_view id_to_piece(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> piece_to_id(std::string_view piece) const;
  // One more than the largest id.
  [[nodiscard]] int vocab_size() const;
  // An added token marked special (a GGUF's control tokens).
  [[nodiscard]] bool is_special(TokenId id) const;
  [[nodiscard]] const TokenizerConfig& config() const;

 private:
  friend class IncrementalDecoder;
  explicit Tokenizer(std::shared_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const TokenizerImpl> impl_;
};

// Decodes a stream of ids: what push() and flush() return, joined, equals decode() of all ids at once, and no returned
// piece ends inside a character. Holds text back only while a character (or what a decoder may still change) is open.
class IncrementalDecoder {
 public:
  IncrementalDecoder(Tokenizer tokenizer, bool skip_special_tokens)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special_tokens) {}
  [[nodiscard]] std::string push(TokenId id);
  // The rest, broken bytes as U+FFFD; the decoder is then as new.
  [[nodiscard]] std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<TokenId> pending_;  // enough of the last ids to decode the next ones in their place
  std::size_t emitted_ = 0;       // bytes of their text already returned
};

}  // namespace tern::tokenizer
