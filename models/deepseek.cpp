#include "models/deepseek.h"

#include <cmath>

#include "base/strings.h"
#include "models/deepseek_fields.h"
#include "models/deepseek_v32.h"
#include "models/experts.h"
#include "models/rope.h"
#include "nn/latent_attention.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

// Of the norms of latent vectors, whatever rms_norm_eps is. llama.cpp takes that one: published models have 1e-6 in
// both.
constexpr double kLatentEps = 1e-6;

nn::LatentAttentionConfig latent(const ModelConfig& config) {
  nn::LatentAttentionConfig latent{.heads = config.num_attention_heads,
                                   .q_rank = config.own_field<std::int64_t>(kQRank),
                                   .kv_rank = config.own_field<std::int64_t>(kKvRank),
                                   .plain_dim = config.own_field<std::int64_t>(kPlainSize),
                                   .turned_dim = config.own_field<std::int64_t>(kTurned),
                                   .value_dim = config.own_field<std::int64_t>(kValue),
                                   .eps = kLatentEps,
                                   .indexer = indexer_of(config)};
  const double mscale = yarn_score_scale(config);
  if (config.rope_query_growth != 0.0) {
    latent.query_rope = kQueryRope;
    latent.plain_query_rope = kPlainQueryRope;
  }
  latent.scale = mscale * mscale / std::sqrt(static_cast<double>(latent.plain_dim + latent.turned_dim));
  return latent;
}

bool add_latent_attention(ParameterList& list, const ModelConfig& config, const std::string& module,
                          const std::string& gguf) {
  const nn::LatentAttentionConfig at = latent(config);
  const std::string name = module + ".self_attn";
  const bool bias = config.attention_bias;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = at.heads * (at.plain_dim + at.turned_dim);
  if (at.q_rank == 0) {
    list.linear(name + ".q_proj", gguf + ".attn_q", {q, hidden});
  } else {
    list.linear(name + ".q_a_proj", gguf + ".attn_q_a", {at.q_rank, hidden, bias});
    list.norm(name + ".q_a_layernorm", gguf + ".attn_q_a_norm", at.q_rank);
    list.linear(name + ".q_b_proj", gguf + ".attn_q_b", {q, at.q_rank});
  }
  list.linear(name + ".kv_a_proj_with_mqa", gguf + ".attn_kv_a_mqa", {nn::latent_width(at), hidden, bias});
  list.norm(name + ".kv_a_layernorm", gguf + ".attn_kv_a_norm", at.kv_rank);
  ParameterSpec& both = list.linear(name + ".kv_b_proj", "", {at.heads * (at.plain_dim + at.value_dim), at.kv_rank});
  both.matrices = at.heads;  // a GGUF has each head's rows of keys, as columns, and of values apart
  both.gguf = {.tensors = {gguf + ".attn_k_b.weight", gguf + ".attn_v_b.weight"},
               .joined = {at.plain_dim, at.value_dim},
               .is_first_transposed = true};
  list.linear(name + ".o_proj", gguf + ".attn_output", {hidden, at.heads * at.value_dim, bias});
  if (at.indexer.topk > 0) add_indexer(list, config, name, gguf);
  return true;
}

std::vector<ParameterSpec> parameters_of_v2(const ModelConfig& config) {
  ExpertParameters experts = routed_expert_parameters(config);
  experts.correction_bias = false;
  return deepseek_parameters(config, experts);
}
std::vector<ParameterSpec> parameters_of_v3(const ModelConfig& config) {
  return deepseek_parameters(config, routed_expert_parameters(config));
}

// The softmax of each expert, and groups by the best of each.
nn::Value hidden_states_of_v2(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::MoeConfig moe = routed_experts(config);
  moe.sigmoid = false;
  moe.group_top = 1;
  if (config.own_field<std::string>(kMethod) != kGroupLimited) moe.groups = moe.top_groups = 1;
  return deepseek_hidden_states(context, config, inputs, moe);
}
nn::Value hidden_states_of_v3(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return deepseek_hidden_states(context, config, inputs, routed_experts(config));
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  std::vector<nn::CacheSpec> specs;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string attention = cat("model.layers.", layer, ".self_attn");
    specs.push_back({.kind = nn::CacheKind::latent,
                     .module = attention,
                     .kv_heads = 1,
                     .key_dim = nn::latent_width(latent(config))});
    if (indexer_of(config).topk > 0) specs.push_back(indexer_cache(config, attention));
  }
  return specs;
}

}  // namespace

std::vector<ParameterSpec> deepseek_parameters(const ModelConfig& config, const ExpertParameters& experts) {
  const auto mixer = [&](ParameterList& list, std::int64_t /*layer*/, const std::string& module,
                         const std::string& gguf) { return add_latent_attention(list, config, module, gguf); };
  return decoder_parameters(config, {.mixer = mixer, .sparse_layers = routed_layers(config), .experts = experts});
}

nn::DecoderLayer deepseek_layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                                const nn::MoeConfig& moe) {
  return [&context, &inputs, moe, attention = latent(config), sparse = routed_layers(config),
          eps = config.rms_norm_eps](std::int64_t index, const std::string& module, nn::Residual& x) {
    x.add(nn::latent_attention(context, module + ".self_attn", attention, inputs,
                               nn::norm(context, module + ".input_layernorm", eps, x)));
    const nn::Value h = nn::norm(context, module + ".post_attention_layernorm", eps, x);
    const bool has_experts = sparse[static_cast<std::size_t>(index)];
    x.add(has_experts ? nn::moe(context, module + ".mlp", moe, h) : nn::gated_mlp(context, module + ".mlp", h));
  };
}

nn::DecoderLayer deepseek_v3_layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return deepseek_layer(context, config, inputs, routed_experts(config));
}

nn::Value deepseek_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                                 const nn::MoeConfig& moe) {
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = config.rms_norm_eps}, inputs,
                     deepseek_layer(context, config, inputs, moe));
}

Architecture deepseek_architecture(std::string name, std::string model_type) {
  Architecture made{.name = std::move(name), .model_type = std::move(model_type)};
  made.rope_tables = one_rope_table;
  made.cache_specs = cache_specs;
  made.head = tied_or_own_head;
  return made;
}

Architecture deepseek_v2_architecture() {
  Architecture made = deepseek_architecture("DeepseekV2ForCausalLM", "deepseek_v2");
  made.fields = deepseek_v2_fields();
  made.gguf = kDeepseekGguf;
  made.is_gguf = is_gguf_of_v2;
  made.gguf_yarn_tenth = true;
  made.parameters = parameters_of_v2;
  made.hidden_states = hidden_states_of_v2;
  return made;
}

Architecture deepseek_v3_architecture() {
  Architecture made = deepseek_architecture("DeepseekV3ForCausalLM", "deepseek_v3");
  made.fields = deepseek_fields({{256, 8, 2048, 3, 8, 4, 2.5}, 4096, 0, 1}, deepseek_v3_choice());
  made.gguf = kDeepseekGguf;
  made.is_gguf = is_gguf_of_v3;
  made.gguf_yarn_tenth = true;
  made.parameters = parameters_of_v3;
  made.hidden_states = hidden_states_of_v3;
  made.layer = deepseek_v3_layer;
  return made;
}

}  // namespace tern::models
