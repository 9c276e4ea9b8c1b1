// The decoders of tokenizer.json: from token strings back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/pre_tokenizer.h"

namespace tern::tokenizer {

// What of a decoded text further tokens may still change.
enum class StreamTail {
  settled,     // nothing
  characters,  // an incomplete character at the end
  byte_run,    // what the byte tokens at the end made
  last_token,  // what the last token made
  whole,       // anything
};

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // Given the tail of the decoders before it, and whether they fuse all tokens into one (which it may set).
  [[nodiscard]] virtual StreamTail tail(StreamTail before, bool& fused) const = 0;
};

// The bytes of byte-level tokens; a token with a character outside the alphabet stands for itself.
[[nodiscard]] std::string byte_level_bytes(const std::vector<std::string>& tokens);
// The byte that a token like <0x0A> stands for, or -1.
[[nodiscard]] int fallback_byte(std::string_view token);

using TokenDecoders = std::vector<std::unique_ptr<TokenDecoder>>;

[[nodiscard]] std::unique_ptr<TokenDecoder> make_byte_level_decoder();
[[nodiscard]] std::unique_ptr<TokenDecoder> make_byte_fallback_decoder();
[[nodiscard]] std::unique_ptr<TokenDecoder> make_fuse_decoder();
[[nodiscard]] std::unique_ptr<TokenDecoder> make_strip_decoder(char32_t content, std::size_t start, std::size_t stop);
[[nodiscard]] std::unique_ptr<TokenDecoder> make_replace_decoder(std::string_view pattern, bool literal,
                                                                 std::string content, const std::string& where);
[[nodiscard]] std::unique_ptr<TokenDecoder> make_metaspace_decoder(char32_t replacement, bool drop_first);
[[nodiscard]] std::unique_ptr<TokenDecoder> make_word_piece_decoder(std::string prefix, bool cleanup);
[[nodiscard]] std::unique_ptr<TokenDecoder> make_bpe_decoder(std::string suffix);
[[nodiscard]] std::unique_ptr<TokenDecoder> make_ctc_decoder(std::string pad, std::string delimiter, bool cleanup);

}  // namespace tern::tokenizer
