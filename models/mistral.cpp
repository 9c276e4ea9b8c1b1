#include "models/mistral.h"

#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 131072,
                                     .bos_token_id = std::int64_t{1},
                                     .eos_token_ids = std::vector<std::int64_t>{2}}),
                     {{"sliding_window", "attention.sliding_window", &ModelConfig::sliding_window,
                       otherwise(FieldValue(std::int64_t{4096}), FieldValue(std::int64_t{0})), is_count}});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.gguf_interleaved = true});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .window = config.sliding_window};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

}  // namespace

Architecture mistral_architecture() {
  return {.name = "MistralForCausalLM",
          .model_type = "mistral",
          .gguf = "llama",  // llama.cpp has no other name for it
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
