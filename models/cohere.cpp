#include "models/cohere.h"

#include <string_view>

#include "base/strings.h"
#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/scale.h"

namespace tern::models {
namespace {

FieldValue by_pattern(const ModelConfig& config) {
  return periodic_layer_types(config, config.own_field<std::int64_t>("sliding_window_pattern"));
}

// transformers takes no other, whatever config.json says.
std::string is_share_of_hidden(const ModelConfig& config, const FieldValue& value) {
  if (!is_even_size(config, value).empty()) return is_even_size(config, value);
  const auto share = std::get<std::int64_t>(hidden_over_heads(config));
  return std::get<std::int64_t>(value) == share ? "" : cat(share, ", hidden_size over num_attention_heads");
}

std::string is_how_it_computes(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<bool>(value) ? "" : "true: this is how the architecture computes";
}
std::string is_without_head_norms(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<bool>(value) ? "false: norms of queries and keys are not served for this architecture" : "";
}
std::string is_one(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<double>(value) == 1.0 ? "" : "1: positions turn whole heads";
}
std::string is_pairs(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "rope_gptj" ? "" : "\"rope_gptj\", positions that turn neighbours";
}
std::string is_windows_first(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "local_attn_first" ? "" : "\"local_attn_first\"";
}
FieldValue as_pattern(const ModelConfig& config) { return config.own_field<std::int64_t>("sliding_window_pattern"); }
std::string is_pattern(const ModelConfig& config, const FieldValue& value) {
  return value == as_pattern(config) ? "" : "what sliding_window_pattern says";
}

std::vector<Field> common_fields(double rope_theta, std::vector<Field> more) {
  using C = ModelConfig;
  const FieldValue theta = rope_theta;
  std::vector<Field> fields = with_fields(
      decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
                      .head_dim = otherwise(hidden_over_heads),
                      .max_position_embeddings = 8192,
                      .bos_token_id = std::int64_t{5},
                      .eos_token_ids = std::vector<std::int64_t>{255001}}),
      {{"rms_norm_eps", "attention.layer_norm_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
       {"rope_theta", "rope.freq_base", &C::rope_theta, Default{theta, theta, FieldValue(10000.0), false}, is_positive},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{0}), FieldValue(std::int64_t{-1}))},
       // llama.cpp reads neither a head of its own nor biases.
       {"tie_word_embeddings", "", &C::tie_word_embeddings, otherwise(FieldValue(true))},
       {"attention_bias", "", &C::attention_bias, otherwise(FieldValue(false))},
       {"logit_scale", "logit_scale", FieldValue(0.0), required_in_gguf(FieldValue(0.0625)), is_positive}});
  fields = with_fields(std::move(fields), std::move(more));
  for (Field& field : fields) {
    if (std::string_view(field.json) == "rms_norm_eps") field.json = "layer_norm_eps";
  }
  return fields;
}

std::vector<Field> cohere_fields() {
  // The context that it was trained for; transformers doesn't read it, nor do positions need it.
  const FieldValue longest = std::int64_t{0};
  return common_fields(
      500000.0, {{"model_max_length", kImplied, longest, Default{longest, longest, longest, true}, is_count},
                 {"use_qk_norm", kImplied, FieldValue(false), otherwise(FieldValue(false)), is_without_head_norms}});
}

// The published files say much of how the architecture computes, and transformers reads none of that.
std::vector<Field> cohere2_fields() {
  const FieldValue yes = true;
  const FieldValue pattern = std::int64_t{4};
  const FieldValue pairs = std::string("rope_gptj");
  const FieldValue first = std::string("local_attn_first");
  return common_fields(
      10000.0,
      {{"head_dim", "attention.key_length", &ModelConfig::head_dim, otherwise(hidden_over_heads), is_share_of_hidden},
       {"sliding_window", "attention.sliding_window", &ModelConfig::sliding_window,
        Default{FieldValue(std::int64_t{4096}), {}, {}, false}, is_size},
       {"sliding_window_pattern", kImplied, pattern, otherwise(pattern), is_size},
       {"layer_switch", kImplied, pattern, otherwise(as_pattern), is_pattern},
       layer_types_field(Default{by_pattern, by_pattern, by_pattern, false}),
       {"order_of_interleaved_layers", kImplied, first, otherwise(first), is_windows_first},
       {"position_embedding_type", kImplied, pairs, otherwise(pairs), is_pairs},
       {"rotary_pct", kImplied, FieldValue(1.0), otherwise(FieldValue(1.0)), is_one},
       {"use_embedding_sharing", kImplied, yes, otherwise(yes), is_how_it_computes},
       {"use_gated_activation", kImplied, yes, otherwise(yes), is_how_it_computes},
       {"use_parallel_block", kImplied, yes, otherwise(yes), is_how_it_computes},
       {"use_parallel_embedding", kImplied, yes, otherwise(yes)}});  // how its authors spread it over devices
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(
      config, {.qkv_bias = config.attention_bias, .output_bias = config.attention_bias, .one_norm = true});
}

// Layers with windows[layer] 0 see every key, and turn as `rope_of_all` says.
ops::Value forward(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                   const std::vector<std::int64_t>& windows, const char* rope_of_all) {
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .rope_interleaved = true};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    attention.rope = attention.window > 0 ? nn::kDefaultRope : rope_of_all;
    const nn::Value normed = nn::layer_norm(context, module + ".input_layernorm", eps, x);
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs, normed);
    const nn::Value mlp = nn::gated_mlp(context, module + ".mlp", normed);
    x.add(nn::weighted_sum(context, 1.0, attended, 1.0, mlp));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps, .is_centred = true}, inputs, layer);
}

ops::Value cohere_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(config.num_hidden_layers), 0);
  return forward(context, config, inputs, none, nn::kDefaultRope);
}

ops::Value cohere2_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return forward(context, config, inputs, windows_by_type(config), "");
}

std::vector<nn::CacheSpec> cohere2_caches(const ModelConfig& config) {
  return attention_caches(config, windows_by_type(config));
}

nn::Head head(const ModelConfig& config) {
  nn::Head head = tied_or_own_head(config);
  head.scale = static_cast<float>(config.own_field<double>("logit_scale"));
  return head;
}

}  // namespace

Architecture cohere_architecture() {
  return {.name = "CohereForCausalLM",
          .model_type = "cohere",
          .gguf = "command-r",
          .fields = cohere_fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = cohere_hidden_states,
          .cache_specs = even_caches,
          .head = head};
}

Architecture cohere2_architecture() {
  return {.name = "Cohere2ForCausalLM",
          .model_type = "cohere2",
          .gguf = "cohere2",
          .fields = cohere2_fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = cohere2_hidden_states,
          .cache_specs = cohere2_caches,
          .head = head};
}

}  // namespace tern::models
