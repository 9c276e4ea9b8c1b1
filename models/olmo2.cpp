#include "models/olmo2.h"

#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {

std::vector<Field> olmo_fields(std::vector<Field> more) {
  using C = ModelConfig;
  std::vector<Field> fields = with_fields(
      decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
                      .head_dim = otherwise(hidden_over_heads),
                      .max_position_embeddings = 2048,
                      .bos_token_id = std::int64_t{-1},
                      .eos_token_ids = std::vector<std::int64_t>{50279}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{1}), FieldValue(std::int64_t{-1}))},
       {"attention_bias",
        "",
        &C::attention_bias,
        otherwise(FieldValue(false)),
        nullptr,
        {GgufTensorSays::What::present, "blk.0.attn_q.bias"}}});
  return with_fields(std::move(fields), std::move(more));
}

std::vector<ParameterSpec> olmo_parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .output_bias = config.attention_bias,
                                     .qk_norm = nn::QkNorm::whole,
                                     .branch_norms = true,
                                     .input_norms = false});
}

ops::Value olmo_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                              const std::vector<std::int64_t>& windows, const char* window_rope) {
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .qk_norm = nn::QkNorm::whole,
                                .eps = config.rms_norm_eps};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    attention.rope = attention.window > 0 ? window_rope : nn::kDefaultRope;
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs, nn::stream(context, x));
    x.add(nn::branch_norm(context, module + ".post_attention_layernorm", eps, attended));
    const nn::Value fed = nn::gated_mlp(context, module + ".mlp", nn::stream(context, x));
    x.add(nn::branch_norm(context, module + ".post_feedforward_layernorm", eps, fed));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

namespace {

ops::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(config.num_hidden_layers), 0);
  return olmo_hidden_states(context, config, inputs, none, nn::kDefaultRope);
}

}  // namespace

Architecture olmo2_architecture() {
  return {.name = "Olmo2ForCausalLM",
          .model_type = "olmo2",
          .gguf = "olmo2",
          .fields = olmo_fields({}),
          .gguf_rope_factors = false,
          .parameters = olmo_parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
