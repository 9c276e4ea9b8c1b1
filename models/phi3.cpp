#include "models/phi3.h"

#include "base/strings.h"
#include "models/rope.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

// Dropout of training from scratch, which fine-tuning leaves off.
std::string is_zero(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<double>(value) == 0.0 ? "" : "0";
}

std::vector<Field> fields() {
  using C = ModelConfig;
  const FieldValue none = 0.0;
  return with_fields(
      decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
                      .head_dim = otherwise(hidden_over_heads),
                      .max_position_embeddings = 4096,
                      .bos_token_id = std::int64_t{1},
                      .eos_token_ids = std::vector<std::int64_t>{32000}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{32000}), FieldValue(std::int64_t{-1}))},
       {"sliding_window", "attention.sliding_window", &C::sliding_window,
        otherwise(FieldValue(std::int64_t{0}), FieldValue(std::int64_t{0})), is_count},
       // Without a scaled rope it says nothing.
       {"original_max_position_embeddings", "rope.scaling.original_context_length", FieldValue(std::int64_t{0}),
        otherwise(FieldValue(std::int64_t{4096})), is_size},
       {"resid_pdrop", kImplied, none, otherwise(none), is_zero},
       {"embd_pdrop", kImplied, none, otherwise(none), is_zero},
       partial_rotary_field(1.0)});
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
    list.linear(module + ".self_attn.qkv_proj", gguf + ".attn_qkv", {q + 2 * kv, hidden});
    list.linear(module + ".self_attn.o_proj", gguf + ".attn_output", {hidden, q});
    list.norm(module + ".post_attention_layernorm", gguf + ".ffn_norm", hidden);
    list.linear(module + ".mlp.gate_up_proj", gguf + ".ffn_up", {2 * config.intermediate_size, hidden});
    list.linear(module + ".mlp.down_proj", gguf + ".ffn_down", {hidden, config.intermediate_size});
  }
  list.norm("model.norm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .window = config.sliding_window,
                                      .fused_qkv = true};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(
        nn::fused_gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

}  // namespace

Architecture phi3_architecture() {
  return {.name = "Phi3ForCausalLM",
          .model_type = "phi3",
          .gguf = "phi3",
          .fields = fields(),
          .gguf_rope_factors = false,
          .gguf_longrope = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
