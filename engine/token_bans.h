// Tokens that a request does not want in its answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/token_mask.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

struct TokenBans {
  std::vector<std::int32_t> allowed;             // tokens; empty: all of them
  std::vector<std::vector<std::int32_t>> words;  // that may not be drawn, each in its tokens
  std::vector<std::int32_t> end_tokens;          // of answers
  std::int64_t vocab_size = 0;                   // rows of the logits
};

// The tokens of each of vLLM's bad_words, at the beginning of a text and behind a space: the latter where it's as many
// tokens and another first one.
[[nodiscard]] std::vector<std::vector<std::int32_t>> banned_words(const tokenizer::Tokenizer& tokenizer,
                                                                  const std::vector<std::string>& words);

// What `mask` allows (null: every token) without what is banned. The last token of a word is banned behind its others.
// Where nothing is left, the answer ends.
[[nodiscard]] std::shared_ptr<TokenMask> without_banned(std::shared_ptr<TokenMask> mask, TokenBans bans);

}  // namespace tern::engine
