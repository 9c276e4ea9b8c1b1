// The prompt that asks a code model for what is missing between two texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/llm.h"

namespace tern::server {

struct FimFile {
  std::string name, text;
};

struct FimRequest {
  std::string prefix, suffix;    // what stands before and after the gap
  std::vector<FimFile> files;    // of the same project, before all else
  std::int64_t most_tokens = 0;  // files lose their beginning to fit; 0: they're taken whole
};

struct FimPrompt {
  engine::TokenIds ids;
  std::vector<std::int32_t> stop_token_ids;  // that end the answer, beside the model's own end tokens
};

// As llama.cpp's server lays it out. Marks that are written out in the texts stay texts. Error (data): the model has no
// tokens for it.
[[nodiscard]] Result<FimPrompt> fim_prompt(const tokenizer::Tokenizer& tokenizer, const FimRequest& request);

}  // namespace tern::server
