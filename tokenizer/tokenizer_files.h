// A tokenizer's files for a Hugging Face directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace tern::tokenizer {

// Puts tokenizer.json, tokenizer_config.json and their companions of `model` into `directory`: copied from a directory,
// written anew from a GGUF's byte-level vocabulary; with `new_special_tokens` beside those that it has (from_directory).
// Errors (data): a GGUF vocabulary of another kind, named.
[[nodiscard]] Status write_tokenizer_files(const std::filesystem::path& model, const std::filesystem::path& directory,
                                           const std::vector<std::string>& new_special_tokens = {});

}  // namespace tern::tokenizer
