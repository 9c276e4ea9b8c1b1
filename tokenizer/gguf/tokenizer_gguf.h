// The vocabulary of a GGUF file.
#pragma once

#include <memory>

#include "checkpoint/gguf.h"
#include "tokenizer/tokenizer_impl.h"

namespace tern::tokenizer {

// Reads the tokenizer.ggml.* and tokenizer.chat_template* metadata. Fails where a key has another type than it should.
[[nodiscard]] Result<GgufVocabulary> read_gguf_vocabulary(const checkpoint::Gguf& file);

// Control tokens beside those that it has.
void add_special_tokens(GgufVocabulary& vocabulary, const std::vector<std::string>& contents);

// Throws Failure (kind data) naming the key.
[[nodiscard]] std::shared_ptr<TokenizerImpl> make_gguf_tokenizer(const GgufVocabulary& vocabulary);

}  // namespace tern::tokenizer
