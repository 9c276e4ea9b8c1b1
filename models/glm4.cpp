#include "models/glm4.h"

#include "base/strings.h"
#include "models/rope.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  using C = ModelConfig;
  return with_fields(
      decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{2}), as_many_as_heads),
                      .head_dim = otherwise(FieldValue(std::int64_t{128}), hidden_over_heads),
                      .max_position_embeddings = 131072,
                      .bos_token_id = std::int64_t{-1},
                      .eos_token_ids = std::vector<std::int64_t>{151329, 151336, 151338}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1.5625e-07), is_epsilon},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{151329}), FieldValue(std::int64_t{-1}))},
       {"attention_bias",
        "",
        &C::attention_bias,
        otherwise(FieldValue(true)),
        nullptr,
        {GgufTensorSays::What::present, "blk.0.attn_q.bias"}},
       partial_rotary_field(0.5)});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden);
    list.linear(module + ".self_attn.q_proj", gguf + ".attn_q", {q, hidden, config.attention_bias});
    list.linear(module + ".self_attn.k_proj", gguf + ".attn_k", {kv, hidden, config.attention_bias});
    list.linear(module + ".self_attn.v_proj", gguf + ".attn_v", {kv, hidden, config.attention_bias});
    list.linear(module + ".self_attn.o_proj", gguf + ".attn_output", {hidden, q});
    list.norm(module + ".post_self_attn_layernorm", gguf + ".post_attention_norm", hidden);
    list.norm(module + ".post_attention_layernorm", gguf + ".ffn_norm", hidden);
    list.linear(module + ".mlp.gate_up_proj", gguf + ".ffn_up", {2 * config.intermediate_size, hidden});
    list.linear(module + ".mlp.down_proj", gguf + ".ffn_down", {hidden, config.intermediate_size});
    list.norm(module + ".post_mlp_layernorm", gguf + ".post_ffw_norm", hidden);
  }
  list.norm("model.norm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .rope_interleaved = true};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs,
                                             nn::norm(context, module + ".input_layernorm", eps, x));
    x.add(nn::branch_norm(context, module + ".post_self_attn_layernorm", eps, attended));
    const nn::Value fed =
        nn::fused_gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x));
    x.add(nn::branch_norm(context, module + ".post_mlp_layernorm", eps, fed));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

}  // namespace

Architecture glm4_architecture() {
  return {.name = "Glm4ForCausalLM",
          .model_type = "glm4",
          .gguf = "glm4",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
