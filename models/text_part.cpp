#include "models/text_part.h"

#include "base/strings.h"

namespace tern::models {
namespace {

constexpr const char* kTextConfig = "text_config";
constexpr std::string_view kModel = "model.";
constexpr const char* kOfTheWhole[] = {"bos_token_id", "dtype",       "eos_token_id",
                                       "pad_token_id", "torch_dtype", "tie_word_embeddings"};

}  // namespace

bool has_text_part(const checkpoint::CheckpointSource& source) {
  if (source.gguf() != nullptr || source.config() == nullptr) return false;
  const io::Json* text = source.config()->find(kTextConfig);
  return text != nullptr && text->is_object();
}

io::Json text_part_json(const io::Json& whole) {
  io::Json text = *whole.find(kTextConfig);
  for (const char* key : kOfTheWhole) {
    const io::Json* said = whole.find(key);
    if (said != nullptr && !text.contains(key)) text[key] = *said;
  }
  return text;
}

std::string text_part_name(const std::string& tensor) {
  struct Prefix {
    std::string_view theirs;
    std::string_view ours;
  };
  constexpr Prefix kPrefixes[] = {{"model.language_model.", kModel},
                                  {"language_model.model.", kModel},
                                  {"language_model.lm_head.", "lm_head."},
                                  {"lm_head.", "lm_head."},
                                  {"mtp.", "mtp."}};
  for (const auto& [theirs, ours] : kPrefixes) {
    if (tensor.starts_with(theirs)) return cat(ours, tensor.substr(theirs.size()));
  }
  return "";
}

std::string part_of(const std::string& tensor) {
  const std::size_t begin = tensor.starts_with(kModel) ? kModel.size() : 0;
  return tensor.substr(begin, tensor.find('.', begin) - begin);
}

}  // namespace tern::models
