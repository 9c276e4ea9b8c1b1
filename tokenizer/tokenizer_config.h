// What stands beside tokenizer.json: roles of tokens, chat templates, limits.
#pragma once

#include <filesystem>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// Reads tokenizer_config.json's text into `config`. Throws Failure naming `where`.
void read_tokenizer_config(std::string_view json, const std::string& where, TokenizerConfig& config);
// special_tokens_map.json: roles that tokenizer_config.json left open.
void read_special_tokens_map(std::string_view json, const std::string& where, TokenizerConfig& config);

}  // namespace tern::tokenizer
