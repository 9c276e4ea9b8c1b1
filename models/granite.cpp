#include "models/granite.h"

#include <cmath>

#include "base/strings.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

// llama.cpp's scale of the scores where a GGUF has none.
FieldValue one_over_root_of_head(const ModelConfig& config) {
  return 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

std::string is_rotated(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<bool>(value) ? "" : "true: layers without rotary positions are another architecture's";
}

std::string is_share(const ModelConfig& /*config*/, const FieldValue& value) {
  const double share = std::get<double>(value);
  return share >= 0 && share < 1 ? "" : "a share from 0 to below 1";
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .output_bias = config.attention_bias,
                                     .mlp_bias = config.mlp_bias,
                                     .gguf_interleaved = true});
}

// Published configurations drop a share of attention's weights in training, which no op does.
void require_no_dropout(const ModelConfig& config) {
  const double share = config.own_field<double>("attention_dropout");
  if (share == 0) return;
  throw Failure(data_error("config.json: field \"attention_dropout\"", "0 for training", cat(share),
                           "set it to 0 to train without dropout of attention's weights"));
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return granite_hidden_states(context, config, inputs, [&](const std::string& module, nn::Value x) {
    return nn::gated_mlp(context, module + ".mlp", x);
  });
}

}  // namespace

std::vector<Field> granite_fields() {
  const FieldValue one = 1.0;
  return with_fields(
      decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
                      .head_dim = otherwise(hidden_over_heads),
                      .max_position_embeddings = 2048,
                      .bos_token_id = std::int64_t{1},
                      .eos_token_ids = std::vector<std::int64_t>{2}}),
      {{"attention_bias",
        "",
        &ModelConfig::attention_bias,
        otherwise(FieldValue(false)),
        nullptr,
        {GgufTensorSays::What::present, "blk.0.attn_q.bias"}},
       {"embedding_multiplier", "embedding_scale", one, otherwise(one), is_positive},
       {"attention_multiplier", "attention.scale", one, Default{one, {}, one_over_root_of_head, false}, is_positive},
       {"residual_multiplier", "residual_scale", one, otherwise(one), is_positive},
       {"logits_scaling", "logit_scale", one, required_in_gguf(one), is_positive},
       {"attention_dropout", kImplied, FieldValue(0.0), otherwise(FieldValue(0.0)), is_share},  // in training alone
       // llama.cpp's switch of rotary positions for this architecture.
       {"", "rope.scaling.finetuned", FieldValue(true), otherwise(FieldValue(true)), is_rotated}});
}

nn::Value granite_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                                const GraniteMlp& mlp, const GraniteAttention& options) {
  if (context.options().training) require_no_dropout(config);
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .scale = config.own_field<double>("attention_multiplier"),
                                      .rope = options.turns ? nn::kDefaultRope : ""};
  const double eps = config.rms_norm_eps;
  const double residual = config.own_field<double>("residual_multiplier");
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    const nn::Value h = nn::norm(context, module + ".input_layernorm", eps, x);
    const nn::Value mixed = options.mixer ? options.mixer(index, module, h) : nn::Value{};
    x.add(mixed.present() ? mixed : nn::attention(context, module + ".self_attn", attention, inputs, h), residual);
    x.add(mlp(module, nn::norm(context, module + ".post_attention_layernorm", eps, x)), residual);
  };
  return nn::decoder(context,
                     {.layers = config.num_hidden_layers,
                      .eps = eps,
                      .embedding_scale = config.own_field<double>("embedding_multiplier")},
                     inputs, layer);
}

nn::Head granite_head(const ModelConfig& config) {
  nn::Head head = tied_or_own_head(config);
  head.scale = static_cast<float>(1.0 / config.own_field<double>("logits_scaling"));
  return head;
}

Architecture granite_architecture() {
  return {.name = "GraniteForCausalLM",
          .model_type = "granite",
          .gguf = "granite",
          .fields = with_fields(granite_fields(), {{"mlp_bias",
                                                    "",
                                                    &ModelConfig::mlp_bias,
                                                    otherwise(FieldValue(false)),
                                                    nullptr,
                                                    {GgufTensorSays::What::present, "blk.0.ffn_up.bias"}}}),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = granite_head};
}

}  // namespace tern::models
