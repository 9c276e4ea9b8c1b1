#include "models/registry.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/bert.h"
#include "models/cohere.h"
#include "models/deepseek.h"
#include "models/deepseek_v32.h"
#include "models/falcon_h1.h"
#include "models/gemma2.h"
#include "models/gemma3.h"
#include "models/gemma4.h"
#include "models/gguf_names.h"
#include "models/glm4.h"
#include "models/glm4_moe.h"
#include "models/gpt_oss.h"
#include "models/granite.h"
#include "models/granite_h.h"
#include "models/granite_moe.h"
#include "models/lfm2.h"
#include "models/lfm2_moe.h"
#include "models/llama.h"
#include "models/llama4.h"
#include "models/mistral.h"
#include "models/mistral4.h"
#include "models/mixtral.h"
#include "models/modernbert.h"
#include "models/olmo2.h"
#include "models/olmo3.h"
#include "models/phi3.h"
#include "models/qwen2.h"
#include "models/qwen2_moe.h"
#include "models/qwen3.h"
#include "models/qwen3_5.h"
#include "models/qwen3_moe.h"
#include "models/qwen3_next.h"
#include "models/rope.h"
#include "models/smollm3.h"
#include "nn/rope.h"

namespace tern::models {
namespace {

// Where several share a name in GGUF, the one that knows fewer fields stands first.
const auto& table() {
  static const std::array rows = {
      llama_architecture(),       mistral_architecture(),     qwen2_architecture(),        qwen3_architecture(),
      granite_architecture(),     gemma2_architecture(),      gemma3_architecture(),       mixtral_architecture(),
      qwen2_moe_architecture(),   qwen3_moe_architecture(),   olmo2_architecture(),        smollm3_architecture(),
      glm4_architecture(),        phi3_architecture(),        olmo3_architecture(),        glm4_moe_architecture(),
      granite_moe_architecture(), qwen3_5_architecture(),     qwen3_5_moe_architecture(),  qwen3_next_architecture(),
      lfm2_architecture(),        gpt_oss_architecture(),     deepseek_v2_architecture(),  deepseek_v3_architecture(),
      cohere_architecture(),      cohere2_architecture(),     granite_h_architecture(),    falcon_h1_architecture(),
      ministral3_architecture(),  mistral4_architecture(),    gemma4_architecture(),       bert_architecture(),
      roberta_architecture(),     xlm_roberta_architecture(), deepseek_v32_architecture(), modernbert_architecture(),
      lfm2_moe_architecture(),    llama4_architecture(),
  };
  return rows;
}

std::vector<std::string> each(std::string Architecture::*member) {
  std::vector<std::string> values;
  for (const auto& architecture : table()) {
    const std::string& value = architecture.*member;
    const bool is_new = std::find(values.begin(), values.end(), value) == values.end();
    if (is_new && !value.empty()) values.push_back(value);
  }
  return values;
}

const Architecture* find(std::string Architecture::*member, const std::string& value) {
  for (const auto& architecture : table()) {
    if (architecture.*member == value) return &architecture;
  }
  return nullptr;
}

}  // namespace

std::span<const Architecture> architectures() { return table(); }
const Architecture* find_architecture(const std::string& name) { return find(&Architecture::name, name); }
const Architecture* find_model_type(const std::string& model_type) {
  return find(&Architecture::model_type, model_type);
}
ModelHead own_head(const Architecture& architecture) {
  return architecture.encoder ? ModelHead::none : ModelHead::language;
}

ModelClass find_class(const std::string& name) {
  if (const Architecture* found = find_architecture(name)) return {found, own_head(*found)};
  for (const auto& [ending, head] :
       {std::pair{std::string_view("ForSequenceClassification"), ModelHead::classification},
        std::pair{std::string_view("ForMaskedLM"), ModelHead::none},
        std::pair{std::string_view("Model"), ModelHead::none}}) {
    if (!name.ends_with(ending)) continue;
    const std::string family = name.substr(0, name.size() - ending.size());
    if (const Architecture* found = find_architecture(family + "Model")) return {found, head};
    // A decoder is never trained so that it sees what it fills in.
    if (ending != "ForMaskedLM") return {find_architecture(family + "ForCausalLM"), head};
  }
  return {};
}

std::vector<ParameterSpec> language_parameters_of(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  std::vector<ParameterSpec> specs = architecture.parameters(config);
  if (config.added_rows == 0) return specs;
  const std::string head = architecture.head(config).weight;
  for (ParameterSpec& spec : specs) {
    if (spec.name == head || module_of(spec).ends_with(".embed_tokens")) spec.added_rows = config.added_rows;
  }
  return specs;
}

std::vector<ParameterSpec> parameters_of(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  std::vector<ParameterSpec> specs = language_parameters_of(config);
  if (config.head == ModelHead::language) return specs;
  if (architecture.encoder) {
    if (config.head != ModelHead::classification) return specs;
    for (ParameterSpec& spec : architecture.encoder->label_parameters(config)) specs.push_back(std::move(spec));
    return specs;
  }
  if (!config.tie_word_embeddings) {
    const std::string own = architecture.head(config).weight;
    std::erase_if(specs, [&](const ParameterSpec& spec) { return spec.name == own; });
  }
  if (config.head == ModelHead::none) return specs;
  ParameterSpec score{.name = kScoreWeight,
                      .shape = {static_cast<std::int64_t>(config.labels.size()), config.hidden_size},
                      .hugging_face = {.tensors = {kScoreWeight}},
                      .gguf = {.tensors = {kGgufLabels}}};
  specs.push_back(std::move(score));
  return specs;
}

std::string_view encoder_prefix(const ModelConfig& config) {
  const auto& encoder = find_architecture(config.architecture)->encoder;
  return encoder ? std::string_view(encoder->prefix) : std::string_view();
}

std::vector<std::string> architecture_names() { return each(&Architecture::name); }
std::vector<std::string> model_types() { return each(&Architecture::model_type); }
std::vector<std::string> gguf_names() { return each(&Architecture::gguf); }

double RopeTable::amplitude_at(std::int64_t position) const {
  return amplitude * (1.0 + growth * std::log1p(std::floor((static_cast<double>(position) + ahead) / period)));
}

RopeTable scaled_rope_table(const ModelConfig& config) {
  return {nn::kDefaultRope, rope_frequencies(config), rope_amplitude(config), long_rope_frequencies(config),
          config.rope_original_max_position};
}

RopeTable query_rope_table(const ModelConfig& config, const char* kind) {
  RopeTable table = scaled_rope_table(config);
  table.kind = kind;
  table.growth = config.rope_query_growth;
  table.period = config.rope_original_max_position;
  return table;
}

std::vector<RopeTable> one_rope_table(const ModelConfig& config) { return {scaled_rope_table(config)}; }

std::vector<nn::CacheSpec> attention_caches(const ModelConfig& config, const std::vector<std::int64_t>& windows) {
  std::vector<nn::CacheSpec> specs;
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    nn::CacheSpec spec;
    spec.kind = windows[layer] > 0 ? nn::CacheKind::window : nn::CacheKind::full;
    spec.module = cat("model.layers.", layer, ".self_attn");
    spec.kv_heads = config.num_key_value_heads;
    spec.key_dim = config.head_dim;
    spec.value_dim = config.head_dim;
    spec.window = windows[layer];
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<nn::CacheSpec> even_caches(const ModelConfig& config) {
  return attention_caches(
      config, std::vector<std::int64_t>(static_cast<std::size_t>(config.num_hidden_layers), config.sliding_window));
}

nn::Head tied_or_own_head(const ModelConfig& config) {
  return {.weight = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"};
}

}  // namespace tern::models
