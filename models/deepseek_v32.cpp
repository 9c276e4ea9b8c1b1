#include "models/deepseek_v32.h"

#include <algorithm>

#include "base/strings.h"
#include "models/deepseek.h"
#include "models/deepseek_fields.h"

namespace tern::models {
namespace {

using Text = std::string;
using Texts = std::vector<std::string>;

constexpr const char* kTopk = "index_topk";
constexpr const char* kHeads = "index_n_heads";
constexpr const char* kSize = "index_head_dim";

// The first features turn, as many as of attention's own heads.
std::string holds_turned(const ModelConfig& config, const FieldValue& value) {
  const std::int64_t turned = std::get<std::int64_t>(turned_size(config));
  return std::get<std::int64_t>(value) >= turned ? "" : cat("at least ", turned, ", the features that turn");
}
std::string has_latent_queries(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::int64_t>(value) > 0 ? "" : "1 or more, as the indexer reads the queries' latent vector";
}
std::string are_indexed(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& types = std::get<Texts>(value);
  const bool all =
      std::all_of(types.begin(), types.end(), [](const Text& type) { return type == "indexed_attention"; });
  return all ? "" : "indexed_attention for each layer";
}
// transformers writes for each layer what first_k_dense_replace says.
std::string are_dense_first(const ModelConfig& config, const FieldValue& value) {
  const auto& types = std::get<Texts>(value);
  if (types.empty()) return "";
  const std::vector<bool> sparse = routed_layers(config);
  bool same = types.size() == sparse.size();
  for (std::size_t layer = 0; same && layer < sparse.size(); ++layer) {
    same = types[layer] == (sparse[layer] ? "sparse" : "dense");
  }
  return same ? "" : "dense for the first first_k_dense_replace layers, sparse for the others";
}

std::vector<Field> fields() {
  const FieldValue size = std::int64_t{0};
  const FieldValue none = Texts();
  const auto usual = [](std::int64_t value) { return required_in_gguf(FieldValue(value)); };
  const DeepseekDefaults defaults = {{256, 8, 2048, 3, 8, 4, 2.5}, 163840, 0, 1};
  std::vector<Field> all =
      deepseek_fields(defaults, {{"q_lora_rank", "attention.q_lora_rank", size,
                                  Default{FieldValue(std::int64_t{1536}), size, {}, false}, has_latent_queries},
                                 {kTopk, "attention.indexer.top_k", size, usual(2048), is_size},
                                 {kHeads, "attention.indexer.head_count", size, usual(64), is_size},
                                 {kSize, "attention.indexer.key_length", size, usual(128), holds_turned},
                                 {"mlp_layer_types", kImplied, none, otherwise(none, none), are_dense_first},
                                 {"layer_types", kImplied, none, otherwise(none, none), are_indexed}});
  return with_fields(std::move(all), deepseek_v3_choice());
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return deepseek_parameters(config, routed_expert_parameters(config));
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return deepseek_hidden_states(context, config, inputs, routed_experts(config));
}

}  // namespace

nn::IndexerConfig indexer_of(const ModelConfig& config) {
  if (!config.own.contains(kTopk)) return {};
  return {.heads = config.own_field<std::int64_t>(kHeads),
          .head_dim = config.own_field<std::int64_t>(kSize),
          .topk = config.own_field<std::int64_t>(kTopk)};
}

void add_indexer(ParameterList& list, const ModelConfig& config, const std::string& attention,
                 const std::string& gguf) {
  const nn::IndexerConfig index = indexer_of(config);
  const std::string name = attention + ".indexer";
  const auto rank = config.own_field<std::int64_t>("q_lora_rank");
  const std::int64_t hidden = config.hidden_size;
  const auto frozen = [](ParameterSpec& spec) { spec.is_frozen = true; };
  frozen(list.tensor(name + ".wq_b.weight", {index.heads * index.head_dim, rank}, gguf + ".indexer.attn_q_b.weight"));
  frozen(list.tensor(name + ".wk.weight", {index.head_dim, hidden}, gguf + ".indexer.attn_k.weight"));
  frozen(list.norm(name + ".k_norm", gguf + ".indexer.k_norm", index.head_dim));
  ParameterSpec& bias = list.tensor(name + ".k_norm.bias", {index.head_dim}, gguf + ".indexer.k_norm.bias");
  bias.is_bias = true;
  frozen(bias);
  frozen(list.tensor(name + ".weights_proj.weight", {index.heads, hidden}, gguf + ".indexer.proj.weight"));
}

nn::CacheSpec indexer_cache(const ModelConfig& config, const std::string& attention) {
  return {.kind = nn::CacheKind::latent,
          .module = attention + ".indexer",
          .kv_heads = 1,
          .key_dim = indexer_of(config).head_dim};
}

Architecture deepseek_v32_architecture() {
  Architecture made = deepseek_architecture("DeepseekV32ForCausalLM", "deepseek_v32");
  made.fields = fields();
  made.gguf = "deepseek32";
  made.gguf_yarn_tenth = true;
  made.parameters = parameters;
  made.hidden_states = hidden_states;
  made.layer = deepseek_v3_layer;
  return made;
}

}  // namespace tern::models
