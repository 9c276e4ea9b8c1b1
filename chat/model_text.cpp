#include "chat/model_text.h"

#include "base/strings.h"
#include "tokenizer/gguf/tokenizer_gguf.h"

namespace tern::chat {
namespace {

namespace fs = std::filesystem;

Result<ModelText> with_template(Result<tokenizer::Tokenizer> tokenizer, const std::string& where) {
  if (!tokenizer) return tokenizer.error();
  ModelText text{std::move(*tokenizer), std::nullopt};
  const std::string& source = text.tokenizer.config().chat_template;
  if (!source.empty()) {
    auto parsed = ChatTemplate::parse(source, cat(where, ": chat_template"));
    if (!parsed) return parsed.error();
    text.chat_template = std::move(*parsed);
  }
  return text;
}

}  // namespace

Result<ModelText> load_model_text(const fs::path& model, const std::vector<std::string>& new_special_tokens) {
  if (!fs::is_directory(model)) {
    auto gguf = checkpoint::Gguf::open(model);
    if (!gguf) return gguf.error();
    auto vocabulary = tokenizer::read_gguf_vocabulary(*gguf);
    if (!vocabulary) return vocabulary.error();
    if (!new_special_tokens.empty()) tokenizer::add_special_tokens(*vocabulary, new_special_tokens);
    return with_template(tokenizer::Tokenizer::from_gguf(*vocabulary), model.string());
  }
  return with_template(tokenizer::Tokenizer::from_directory(model, new_special_tokens), model.string());
}

}  // namespace tern::chat
