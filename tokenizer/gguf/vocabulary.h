// The tokenizer of a Hugging Face directory as a GGUF file keeps it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "checkpoint/gguf_writer.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// From tokenizer.json: byte-level BPE (tokenizer.ggml.model gpt2) and BPE with byte fallback (llama). The vocabulary is
// filled up to `vocab_size` rows with unused tokens. `tokenizer.ggml.pre` is the first of the splits that llama.cpp
// knows with which a text of every kind of character gets the ids that tokenizer.json gives.
// Errors (data): another kind of tokenizer, named; one whose ids no GGUF vocabulary reproduces.
[[nodiscard]] Result<GgufVocabulary> make_gguf_vocabulary(const std::filesystem::path& directory,
                                                          std::int64_t vocab_size);

// Sets the tokenizer.ggml.* and tokenizer.chat_template* keys.
void set_gguf_vocabulary(const GgufVocabulary& vocabulary, checkpoint::GgufMetadata& metadata);

}  // namespace tern::tokenizer
