// The pre-tokenizers that a GGUF file names by `tokenizer.ggml.pre`, as llama.cpp defines them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::tokenizer {

struct GgufPre {
  std::vector<std::string_view> names;
  std::vector<std::string> patterns;  // for make_llama_split, applied in turn
  bool ignore_merges = false;         // a word that is a token is that token
  bool add_bos = false;               // where the file does not say
  bool add_sep = false;
  bool bytes = true;           // byte-level alphabet; else UTF-8 with <0x..> for the rest
  bool escape_spaces = false;  // "▁" for spaces first
  bool gemma4 = false;         // BOS whatever the file says, and a run of newlines that is a token is that token
  bool no_bos = false;         // none where the file names none; else it is token 11
};

// Null where llama.cpp knows no such name.
[[nodiscard]] const GgufPre* find_gguf_pre(std::string_view name);
[[nodiscard]] std::vector<std::string_view> gguf_pre_names();

}  // namespace tern::tokenizer
