// The reader of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer_impl.h"

namespace tern::tokenizer {

// Truncation and padding that the file asks for are left to the caller of the tokenizer, as transformers does.
// Throws Failure (kind data) that names the field.
[[nodiscard]] std::shared_ptr<TokenizerImpl> read_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace tern::tokenizer
