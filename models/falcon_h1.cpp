#include "models/falcon_h1.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/mamba_layers.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/scale.h"

namespace tern::models {
namespace {

using C = ModelConfig;
using Numbers = std::vector<double>;

constexpr const char* kKey = "key_multiplier";
constexpr const char* kAttentionIn = "attention_in_multiplier";
constexpr const char* kAttentionOut = "attention_out_multiplier";
constexpr const char* kSsmIn = "ssm_in_multiplier";
constexpr const char* kSsmOut = "ssm_out_multiplier";
constexpr const char* kSsm = "ssm_multipliers";
constexpr const char* kMlp = "mlp_multipliers";
constexpr const char* kEmbedding = "embedding_multiplier";
constexpr const char* kHead = "lm_head_multiplier";
constexpr const char* kNorm = "mamba_rms_norm";
constexpr const char* kNormFirst = "mamba_norm_before_gate";
constexpr const char* kProjectors = "projectors_bias";

double factor(const C& config, const char* key) { return config.own_field<double>(key); }

template <std::size_t count>
std::string are_factors(const C& config, const FieldValue& value) {
  const auto& list = std::get<Numbers>(value);
  const bool sound = list.size() == count && std::all_of(list.begin(), list.end(), [&](double each) {
                       return is_positive(config, each).empty();
                     });
  return sound ? "" : cat(count, " positive numbers");
}

// A GGUF's weights have been multiplied by the factors already.
std::vector<Field> fields() {
  const FieldValue one = 1.0, no = false, pad = std::int64_t{0};
  const auto ones = [](std::size_t count) { return FieldValue(Numbers(count, 1.0)); };
  std::vector<Field> own = {
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
      {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
       otherwise(pad, FieldValue(std::int64_t{-1}))},
      {"attention_bias", "", &C::attention_bias, otherwise(no)},
      {"mlp_bias", "", &C::mlp_bias, otherwise(no)},
      {kProjectors, "", no, otherwise(no)},
      {kNorm, "", no, otherwise(no), nullptr, {GgufTensorSays::What::present, "blk.0.ssm_norm.weight"}},
      {kNormFirst, "", no, Default{FieldValue(true), FieldValue(true), no, false}},
      {kSsm, "", ones(5), otherwise(ones(5)), are_factors<5>},
      {kMlp, "", ones(2), otherwise(ones(2)), are_factors<2>},
  };
  for (const char* key : {kKey, kAttentionIn, kAttentionOut, kSsmIn, kSsmOut, kEmbedding, kHead})
    own.push_back({key, "", one, otherwise(one), is_positive});
  for (Field& field : mamba_fields(Width::own)) own.push_back(std::move(field));
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 8192,
                                     .bos_token_id = std::int64_t{1},
                                     .eos_token_ids = std::vector<std::int64_t>{2}}),
                     std::move(own));
}

nn::Mamba2Config mamba(const C& config) {
  nn::Mamba2Config out = mamba_config(config);
  using Norm = nn::Mamba2Config::Norm;
  out.norm = !config.own_field<bool>(kNorm)       ? Norm::none
             : config.own_field<bool>(kNormFirst) ? Norm::before_gate
                                                  : Norm::after_gate;
  out.in_scale = factor(config, kSsmIn);
  const auto& scales = config.own_field<Numbers>(kSsm);
  std::copy(scales.begin(), scales.end(), out.scales.begin());
  return out;
}

void add_attention(ParameterList& list, const C& config, const std::string& module, const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size, q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  const bool bias = config.attention_bias;
  list.linear(module + ".q_proj", gguf + ".attn_q", {q, hidden, bias});
  list.linear(module + ".k_proj", gguf + ".attn_k", {kv, hidden, bias});
  list.linear(module + ".v_proj", gguf + ".attn_v", {kv, hidden, bias});
  list.linear(module + ".o_proj", gguf + ".attn_output", {hidden, q, bias});
}

std::vector<ParameterSpec> parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const bool bias = config.mlp_bias;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden);
    add_mamba(list, config, module + ".mamba", gguf,
              {.norm = config.own_field<bool>(kNorm),
               .out_bias = config.own_field<bool>(kProjectors),
               .out_adapters = false});  // PEFT refuses them: the model's fused kernels read the weight alone
    add_attention(list, config, module + ".self_attn", gguf);
    list.tensor(module + ".pre_ff_layernorm.weight", {hidden}, gguf + ".ffn_norm");  // llama.cpp's: without an ending
    list.linear(module + ".feed_forward.gate_proj", gguf + ".ffn_gate", {wide, hidden, bias});
    list.linear(module + ".feed_forward.up_proj", gguf + ".ffn_up", {wide, hidden, bias});
    list.linear(module + ".feed_forward.down_proj", gguf + ".ffn_down", {hidden, wide, bias});
  }
  list.norm("model.final_layernorm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value hidden_states(nn::Context& context, const C& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  const nn::AttentionConfig attention{
      .heads = config.num_attention_heads,
      .kv_heads = config.num_key_value_heads,
      .head_dim = config.head_dim,
      .scale = factor(config, kKey) / std::sqrt(static_cast<double>(config.head_dim))};  // scores are linear in keys
  const nn::Mamba2Config scan = mamba(config);
  const auto& mlp = config.own_field<Numbers>(kMlp);
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    const nn::Value h = nn::norm(context, module + ".input_layernorm", eps, x);
    const nn::Value scanned = nn::mamba2(context, module + ".mamba", scan, inputs, h);
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs,
                                             nn::scaled(context, h, factor(config, kAttentionIn)));
    x.add(nn::weighted_sum(context, factor(config, kSsmOut), scanned, factor(config, kAttentionOut), attended));
    x.add(nn::gated_mlp(context, module + ".feed_forward", nn::norm(context, module + ".pre_ff_layernorm", eps, x),
                        TERN_ACT_SILU, {.gate_scale = mlp[0]}),
          mlp[1]);
  };
  return nn::decoder(context,
                     {.layers = config.num_hidden_layers,
                      .eps = eps,
                      .embedding_scale = factor(config, kEmbedding),
                      .norm = "final_layernorm"},
                     inputs, layer);
}

std::vector<nn::CacheSpec> cache_specs(const C& config) {
  std::vector<nn::CacheSpec> specs = even_caches(config);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    specs.push_back(nn::mamba2_cache(cat("model.layers.", layer, ".mamba"), mamba(config)));
  return specs;
}

nn::Head head(const C& config) {
  nn::Head out = tied_or_own_head(config);
  out.scale = static_cast<float>(factor(config, kHead));
  return out;
}

}  // namespace

Architecture falcon_h1_architecture() {
  return {.name = "FalconH1ForCausalLM",
          .model_type = "falcon_h1",
          .gguf = "falcon-h1",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = head};
}

}  // namespace tern::models
