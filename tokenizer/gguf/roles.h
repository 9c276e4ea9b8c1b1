// What llama.cpp takes each token of a GGUF vocabulary for: the file's types, corrected by what tokens are called.
#pragma once

#include <vector>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// tokenizer.ggml.token_type
inline constexpr std::int32_t kGgufNormal = 1, kGgufUnknown = 2, kGgufControl = 3, kGgufUserDefined = 4,
                              kGgufUnused = 5, kGgufByte = 6;

struct GgufTokenRole {
  bool unknown = false;
  bool control = false;
  bool user_defined = false;
  bool lstrip = false;  // takes the white space before it along
  bool rstrip = false;
};

// One for each of `vocabulary.tokens`; token_types, unless empty, has as many.
[[nodiscard]] std::vector<GgufTokenRole> gguf_token_roles(const GgufVocabulary& vocabulary);

}  // namespace tern::tokenizer
