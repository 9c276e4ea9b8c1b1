#include "text/model_text.h"

#include "base/strings.h"

namespace tern::text {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::optional<TokenId> token_id(const io::Gguf& gguf, const char* key) {
  const std::int64_t id = gguf.integer_or(key, -1).value();
  return id < 0 ? std::nullopt : std::optional<TokenId>(static_cast<TokenId>(id));
}

std::optional<bool> flag(const io::Gguf& gguf, const char* key) {
  if (gguf.find(key) == nullptr) return std::nullopt;
  return gguf.boolean(key).value();
}

std::vector<std::string> strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

template <typename Number, typename Values>
std::vector<Number> numbers(const io::Gguf& gguf, const char* key, Values (io::GgufValue::*read)() const) {
  const io::GgufValue* value = gguf.find(key);
  if (value == nullptr) return {};
  const auto all = (value->*read)();
  if (!all)
    throw Failure(data_error(cat(gguf.path(), ": key \"", key, "\""), "an array of numbers", "another kind of value"));
  return {all->begin(), all->end()};
}

void read_templates(const io::Gguf& gguf, GgufVocabulary& vocabulary) {
  vocabulary.chat_template = gguf.text_or(kTemplateKey, "").value();
  const std::string prefix = cat(kTemplateKey, ".");
  for (const auto& [key, value] : gguf.metadata()) {
    if (!key.starts_with(prefix)) continue;
    if (const auto text = value.text()) vocabulary.named_chat_templates.emplace_back(key.substr(prefix.size()), *text);
  }
}

Result<ModelText> with_template(Result<Tokenizer> tokenizer, const std::string& where) {
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

Result<GgufVocabulary> read_gguf_vocabulary(const io::Gguf& gguf) {
  return catching([&] {
    GgufVocabulary v;
    v.where = gguf.path();
    v.model = gguf.text("tokenizer.ggml.model").value();
    v.pre = gguf.text_or("tokenizer.ggml.pre", "").value();
    v.tokens = strings(gguf.texts("tokenizer.ggml.tokens").value());
    v.scores = numbers<float>(gguf, "tokenizer.ggml.scores", &io::GgufValue::numbers);
    v.token_types = numbers<std::int32_t>(gguf, "tokenizer.ggml.token_type", &io::GgufValue::integers);
    if (gguf.find("tokenizer.ggml.merges") != nullptr) v.merges = strings(gguf.texts("tokenizer.ggml.merges").value());
    v.bos_id = token_id(gguf, "tokenizer.ggml.bos_token_id");
    v.eos_id = token_id(gguf, "tokenizer.ggml.eos_token_id");
    v.unk_id = token_id(gguf, "tokenizer.ggml.unknown_token_id");
    v.pad_id = token_id(gguf, "tokenizer.ggml.padding_token_id");
    v.sep_id = token_id(gguf, "tokenizer.ggml.seperator_token_id");  // spelled so in the format
    v.cls_id = token_id(gguf, "tokenizer.ggml.cls_token_id");
    v.mask_id = token_id(gguf, "tokenizer.ggml.mask_token_id");
    v.add_bos = flag(gguf, "tokenizer.ggml.add_bos_token");
    v.add_eos = flag(gguf, "tokenizer.ggml.add_eos_token");
    v.add_sep = flag(gguf, "tokenizer.ggml.add_sep_token");
    v.add_space_prefix = flag(gguf, "tokenizer.ggml.add_space_prefix");
    v.remove_extra_whitespaces = flag(gguf, "tokenizer.ggml.remove_extra_whitespaces");
    if (const io::GgufValue* map = gguf.find("tokenizer.ggml.precompiled_charsmap")) {
      v.precompiled_charsmap.assign(reinterpret_cast<const char*>(map->raw.data()), map->raw.size());
    }
    read_templates(gguf, v);
    return v;
  });
}

Result<ModelText> load_model_text(const fs::path& model) {
  if (!fs::is_directory(model)) {
    auto gguf = io::Gguf::open(model);
    if (!gguf) return gguf.error();
    auto vocabulary = read_gguf_vocabulary(*gguf);
    if (!vocabulary) return vocabulary.error();
    return with_template(Tokenizer::from_gguf(*vocabulary), model.string());
  }
  return with_template(Tokenizer::from_directory(model), model.string());
}

}  // namespace tern::text
