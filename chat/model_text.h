// The tokenizer and chat template that come with a model, wherever they are kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "checkpoint/gguf.h"
#include "tokenizer/tokenizer.h"

namespace tern::chat {

struct ModelText {
  tokenizer::Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: the model has no dialogue format
};

// From a GGUF file's metadata, or a directory's tokenizer.json and its companions. Errors (data): absent or malformed
// files; a template that does not parse.
// `new_special_tokens`: the tokenizer gets them beside its own.
[[nodiscard]] Result<ModelText> load_model_text(const std::filesystem::path& model,
                                                const std::vector<std::string>& new_special_tokens = {});

}  // namespace tern::chat
