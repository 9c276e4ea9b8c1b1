// The bytes that each token adds to a text in its middle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tern::engine {

// [vocab_size]; "" for special tokens, and for ids that the tokenizer lacks. A token may be a part of a character.
[[nodiscard]] std::vector<std::string> token_bytes(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size);

}  // namespace tern::engine
