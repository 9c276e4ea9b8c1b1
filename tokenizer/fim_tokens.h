// The tokens with which code models are asked for what is missing in the middle (fill-in-the-middle, arXiv:2207.14255).
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// Prefix, suffix, middle, pad, repository, file separator: the names that families give them, as llama.cpp knows them.
using FimNames = std::array<std::vector<std::string_view>, 6>;
[[nodiscard]] const FimNames& fim_names();

// TokenizerConfig::extra has under this name and a number the id of the token that a GGUF names.
inline constexpr std::string_view kFimKey = "fim_token_id_";

struct FimTokens {
  TokenId prefix = 0, suffix = 0;
  std::optional<TokenId> middle;      // after both; absent: the suffix comes first, and the answer follows the prefix
  std::optional<TokenId> repository;  // before its name
  std::optional<TokenId> separator;   // before a file's name
  std::vector<TokenId> ends;          // that end such an answer, beside the model's own end tokens
};

// Those that a GGUF's metadata name, else those of a name in the vocabulary; none for a model that was not trained so.
[[nodiscard]] std::optional<FimTokens> fim_tokens(const Tokenizer& tokenizer);

}  // namespace tern::tokenizer
