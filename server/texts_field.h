// Texts of a body that are to be pooled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llm.h"
#include "server/json_body.h"

namespace tern::server {

// A text, token ids, or a list of either. Throws Failure (data).
[[nodiscard]] std::vector<engine::Prompt> prompts_field(JsonBody& body, std::string_view key);

// What vLLM's bodies say of texts.
struct AskedTexts {
  std::vector<engine::Prompt> prompts;
  std::string key;  // the field that they came by
  bool add_special_tokens = true;
  std::optional<std::int64_t> truncate_prompt_tokens;  // what is longer is cut to so many; -1: to what the model takes
  bool truncate_left = false;                          // the beginning is cut off, else the end
};

// `input`, as of prompts_field, or `messages`, one dialogue; and the fields that say how they become tokens. Throws
// Failure (data).
[[nodiscard]] AskedTexts texts_fields(JsonBody& body);

// The same as they are asked of `llm`, whose tokenizer's special tokens are not cut; `prefix` stands before each text.
// Throws Failure (data).
[[nodiscard]] std::vector<engine::Prompt> prompts_for(const engine::LLM& llm, const AskedTexts& texts,
                                                      std::string_view prefix = "");

}  // namespace tern::server
