#include "models/llama.h"

#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
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
                      {"mlp_bias",
                       "",
                       &ModelConfig::mlp_bias,
                       otherwise(FieldValue(false)),
                       nullptr,
                       {GgufTensorSays::What::present, "blk.0.ffn_up.bias"}}});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .output_bias = config.attention_bias,
                                     .mlp_bias = config.mlp_bias,
                                     .gguf_interleaved = true});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{
      .heads = config.num_attention_heads, .kv_heads = config.num_key_value_heads, .head_dim = config.head_dim};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

}  // namespace

Architecture llama_architecture() {
  return {.name = "LlamaForCausalLM",
          .model_type = "llama",
          .gguf = "llama",
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
