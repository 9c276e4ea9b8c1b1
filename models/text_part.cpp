#include "models/text_part.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"

namespace tern::models {
namespace {

constexpr const char* kTextConfig = "text_config";
constexpr const char* kVisionConfig = "vision_config";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";
constexpr std::string_view kModel = "model.";
constexpr std::string_view kHead = "lm_head.";
constexpr const char* kOfTheWhole[] = {"bos_token_id", "dtype", "eos_token_id", "pad_token_id", "torch_dtype"};
constexpr const char* kTied = "tie_word_embeddings";
// Of a whole whose fields are not apart: what concerns its other parts.
constexpr const char* kOfOtherParts[] = {kVisionConfig,           "image_token_id",      "video_token_id",
                                         "vision_start_token_id", "vision_end_token_id", "vision_token_id"};

// A class of transformers whose language model, where it reads text alone, is another's to the bit.
struct Whole {
  std::string_view name;
  std::string_view text_type;     // the model type of its text_config; empty: of any architecture here
  std::string_view architecture;  // then empty, too
  std::string_view gguf = {};     // what llama.cpp calls its language model, where that has a name of its own
};
constexpr Whole kWholes[] = {
    {"Qwen3_5ForConditionalGeneration", "qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl_text", "Qwen3ForCausalLM", "qwen3vl"},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", "Qwen3MoeForCausalLM", "qwen3vlmoe"},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", "Qwen2ForCausalLM", "qwen2vl"},
    {"Qwen2VLForConditionalGeneration", "qwen2_vl_text", "Qwen2ForCausalLM", "qwen2vl"},
    {"Gemma3ForConditionalGeneration", "gemma3_text", "Gemma3ForCausalLM"},
    {"Gemma4ForConditionalGeneration", "gemma4_text", "Gemma4ForCausalLM"},
    {"Llama4ForConditionalGeneration", "llama4_text", "Llama4ForCausalLM"},
    {"Mistral3ForConditionalGeneration", "", ""},
    {"InternVLForConditionalGeneration", "", ""},
    {"LlavaForConditionalGeneration", "", ""},
    {"LlavaNextForConditionalGeneration", "", ""},
    {"LlavaOnevisionForConditionalGeneration", "", ""},
    {"Lfm2VlForConditionalGeneration", "", ""},
};

// What transformers' class of a text_config has where a published one leaves it out, though no model has a usual size.
struct Usual {
  std::string_view text_type;
  const char* key;
  const char* json;
};
constexpr Usual kUsual[] = {
    {"llama", "hidden_size", "4096"},
    {"llama", "intermediate_size", "11008"},
    {"llama", "num_attention_heads", "32"},
    {"llama", "num_hidden_layers", "32"},
    {"llama", "vocab_size", "32000"},
    {"mistral", "hidden_size", "4096"},
    {"mistral", "intermediate_size", "14336"},
    {"mistral", "num_attention_heads", "32"},
    {"mistral", "num_hidden_layers", "32"},
    {"mistral", "vocab_size", "32000"},
    {"qwen3_vl_moe_text", "norm_topk_prob", "true"},
};

const Whole& whole_of(const std::string& name) {
  return *std::find_if(std::begin(kWholes), std::end(kWholes), [&](const Whole& one) { return one.name == name; });
}

const Whole* find_whole(const io::Json& config) {
  const io::Json* names = config.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->begin()->is_string()) return nullptr;
  const std::string_view name = names->begin()->text();
  const auto* found =
      std::find_if(std::begin(kWholes), std::end(kWholes), [&](const Whole& one) { return one.name == name; });
  return found == std::end(kWholes) ? nullptr : found;
}

bool has_text_config(const io::Json& config) {
  const io::Json* text = config.find(kTextConfig);
  return text != nullptr && text->is_object();
}

}  // namespace

bool has_text_part(const checkpoint::CheckpointSource& source) {
  if (source.gguf() != nullptr || source.config() == nullptr) return false;
  return has_text_config(*source.config()) || find_whole(*source.config()) != nullptr;
}

std::vector<std::string> whole_names() {
  std::vector<std::string> names;
  for (const Whole& whole : kWholes) names.emplace_back(whole.name);
  return names;
}

std::string whole_architecture(const std::string& name) { return std::string(whole_of(name).architecture); }
std::string whole_gguf(const std::string& name) { return std::string(whole_of(name).gguf); }

std::string part_of_gguf(const std::string& name) {
  const auto* found = std::find_if(std::begin(kWholes), std::end(kWholes),
                                   [&](const Whole& one) { return !one.gguf.empty() && one.gguf == name; });
  return found == std::end(kWholes) ? name : find_architecture(std::string(found->architecture))->gguf;
}

io::Json text_part_json(const checkpoint::CheckpointSource& source) {
  const io::Json& whole = *source.config();
  io::Json text = has_text_config(whole) ? *whole.find(kTextConfig) : whole;
  for (const char* key : kOfOtherParts) text.erase(key);  // some name their tokens in the text_config, too
  if (!has_text_config(whole)) {
    text.erase("model_type");
    return text;
  }
  const io::Json* named = text.find("model_type");
  const std::string type(named != nullptr && named->is_string() ? named->text() : "");
  for (const Usual& usual : kUsual) {
    if (usual.text_type == type && !text.contains(usual.key))
      text[usual.key] = io::parse_json(usual.json, usual.key).value();
  }
  for (const char* key : kOfTheWhole) {
    const io::Json* said = whole.find(key);
    if (said != nullptr && !text.contains(key)) text[key] = *said;
  }
  const io::Json* of_text = text.find(kTied);
  const io::Json* of_whole = whole.find(kTied);
  if (of_text != nullptr && of_whole != nullptr && *of_text == *of_whole) return text;
  const auto& tensors = source.tensors();
  if (tensors.empty()) {  // config.json alone is read: it says what it can
    if (of_whole != nullptr) text[kTied] = *of_whole;
    return text;
  }
  text[kTied] = std::none_of(tensors.begin(), tensors.end(),
                             [](const auto& tensor) { return text_part_name(tensor.name) == "lm_head.weight"; });
  return text;
}

const Architecture& language_model_of(const io::JsonField& whole, const io::JsonField& text) {
  const Whole* found = find_whole(whole.json());
  if (found == nullptr) {
    const auto given = whole.find("architectures");
    const std::vector<std::string> names = given ? given->texts() : std::vector<std::string>();
    throw Failure(whole.place()
                      .field("architectures")
                      .error(cat("of a model with a text_config, one of ", join(whole_names(), ", ")),
                             names.empty() ? "none" : names.front(), kOtherModel));
  }
  const std::string type = text.text("model_type", std::string(found->text_type));
  if (found->text_type.empty()) {
    if (const Architecture* model = find_model_type(type)) return *model;
    throw Failure(text.place()
                      .field("model_type")
                      .error(cat("one of ", join(model_types(), ", ")), type.empty() ? "none" : cat("\"", type, "\""),
                             kOtherModel));
  }
  if (type != found->text_type) {
    throw text.at("model_type").wrong(cat("\"", found->text_type, "\", as ", found->name, " has"), kOtherModel);
  }
  return *find_architecture(std::string(found->architecture));
}

std::string text_part_name(const std::string& tensor) {
  struct Prefix {
    std::string_view theirs;
    std::string_view ours;
  };
  constexpr Prefix kPrefixes[] = {{"model.language_model.", kModel},
                                  {"language_model.model.", kModel},
                                  {"language_model.lm_head.", kHead},
                                  {kHead, kHead},
                                  // Qwen2-VL's as it was published.
                                  {"model.embed_tokens.", "model.embed_tokens."},
                                  {"model.layers.", "model.layers."},
                                  {"model.norm.", "model.norm."},
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
