#include "models/lfm2_layers.h"

#include <string_view>

#include "base/strings.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/short_conv.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;
using C = ModelConfig;

constexpr const char* kConv = "conv";
constexpr const char* kFull = "full_attention";
constexpr const char* kTypes = "layer_types";
constexpr const char* kWidth = "intermediate_size";
constexpr const char* kKernel = "conv_L_cache";
constexpr const char* kConvBias = "conv_bias";

std::string are_types(const ModelConfig& config, const FieldValue& value) {
  if (!are_words_of_layers(config, value, kConv, kFull))
    return cat(kConv, " or ", kFull, " for each of ", config.num_hidden_layers, " layers");
  return divides_heads(config, config.num_key_value_heads);  // which a GGUF says with them
}

bool attends(const ModelConfig& config, std::int64_t layer) {
  return config.own_field<Texts>(kTypes)[static_cast<std::size_t>(layer)] == kFull;
}

void add_mixer(ParameterList& list, const ModelConfig& config, std::int64_t layer, const std::string& module,
               const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size;
  if (attends(config, layer)) {
    const std::string attention = module + ".self_attn";
    const std::int64_t q = config.num_attention_heads * config.head_dim;
    const std::int64_t kv = config.num_key_value_heads * config.head_dim;
    list.linear(attention + ".q_proj", gguf + ".attn_q", {q, hidden});
    list.linear(attention + ".k_proj", gguf + ".attn_k", {kv, hidden});
    list.linear(attention + ".v_proj", gguf + ".attn_v", {kv, hidden});
    list.linear(attention + ".out_proj", gguf + ".attn_output", {hidden, q});
    list.norm(attention + ".q_layernorm", gguf + ".attn_q_norm", config.head_dim);
    list.norm(attention + ".k_layernorm", gguf + ".attn_k_norm", config.head_dim);
    return;
  }
  const bool bias = config.own_field<bool>(kConvBias);
  const std::int64_t kernel = config.own_field<std::int64_t>(kKernel);
  list.linear(module + ".conv.in_proj", gguf + ".shortconv.in_proj", {3 * hidden, hidden, bias});
  list.linear(module + ".conv.out_proj", gguf + ".shortconv.out_proj", {hidden, hidden, bias});
  list.tensor(module + ".conv.conv.weight", {hidden, kernel}, gguf + ".shortconv.conv.weight")
      .hugging_face.is_depthwise = true;
  if (bias) list.tensor(module + ".conv.conv.bias", {hidden}, gguf + ".shortconv.conv.bias").is_bias = true;
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  std::vector<nn::CacheSpec> specs =
      attention_caches(config, std::vector<std::int64_t>(static_cast<std::size_t>(config.num_hidden_layers), 0));
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (attends(config, layer)) continue;
    specs[static_cast<std::size_t>(layer)] = nn::short_conv_cache(
        cat("model.layers.", layer, ".conv"), config.own_field<std::int64_t>(kKernel), config.hidden_size);
  }
  return specs;
}

}  // namespace

std::vector<Field> lfm2_fields(std::vector<Field> own) {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  Field tied = {"tie_word_embeddings",       "",      &C::tie_word_embeddings,
                otherwise(FieldValue(true)), nullptr, {GgufTensorSays::What::absent, "output.weight"}};
  tied.also = "tie_embedding";
  std::vector<Field> fields = decoder_fields({.num_key_value_heads = otherwise(count(8)),
                                              .head_dim = otherwise(hidden_over_heads),
                                              .max_position_embeddings = 128000,
                                              .bos_token_id = std::int64_t{1},
                                              .eos_token_ids = std::vector<std::int64_t>{2}});
  for (Field& field : fields) {
    if (std::string_view(field.json) == "rms_norm_eps") field.json = "norm_eps";
  }
  std::erase_if(fields, [](const Field& field) { return std::string_view(field.json) == kWidth; });
  fields = with_fields(
      std::move(fields),
      {{"num_key_value_heads", kImplied, &C::num_key_value_heads, otherwise(count(8), as_many_as_heads), divides_heads},
       {"rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(1000000.0)), is_positive},
       std::move(tied),
       {kKernel, "shortconv.l_cache", count(0), required_in_gguf(count(3)), is_kernel},
       {kConvBias, "", FieldValue(false), otherwise(FieldValue(false))}});
  return with_fields(std::move(fields), std::move(own));
}

Field lfm2_types(Default otherwise) {
  Field types = {kTypes, "attention.head_count_kv", FieldValue(Texts()), std::move(otherwise), are_types};
  types.gguf_words = {kConv, kFull, &C::num_key_value_heads};
  return types;
}

Lfm2FeedForward lfm2_mlp(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  return {[=](ParameterList& list, std::int64_t /*layer*/, const std::string& module, const std::string& gguf) {
            list.linear(module + ".feed_forward.w1", gguf + ".ffn_gate", {wide, hidden});
            list.linear(module + ".feed_forward.w3", gguf + ".ffn_up", {wide, hidden});
            list.linear(module + ".feed_forward.w2", gguf + ".ffn_down", {hidden, wide});
          },
          [](nn::Context& context, std::int64_t /*layer*/, const std::string& module, nn::Value x) {
            return nn::gated_mlp(context, module + ".feed_forward", x, TERN_ACT_SILU, {"w1", "w3", "w2"});
          }};
}

std::vector<ParameterSpec> lfm2_parameters(const ModelConfig& config, const Lfm2FeedForward& feed_forward) {
  const std::int64_t hidden = config.hidden_size;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    list.norm(module + ".operator_norm", gguf + ".attn_norm", hidden);
    add_mixer(list, config, layer, module, gguf);
    list.norm(module + ".ffn_norm", gguf + ".ffn_norm", hidden);
    feed_forward.add(list, layer, module, gguf);
  }
  list.norm("model.embedding_norm", "token_embd_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value lfm2_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                             const Lfm2FeedForward& feed_forward) {
  const double eps = config.rms_norm_eps;
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .qk_norm = nn::QkNorm::head,
                                      .eps = eps,
                                      .names = {"q_layernorm", "k_layernorm", "out_proj"}};
  const std::int64_t kernel = config.own_field<std::int64_t>(kKernel);
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    const nn::Value h = nn::norm(context, module + ".operator_norm", eps, x);
    x.add(attends(config, index) ? nn::attention(context, module + ".self_attn", attention, inputs, h)
                                 : nn::short_conv(context, module + ".conv", kernel, inputs, h));
    x.add(feed_forward.of(context, index, module, nn::norm(context, module + ".ffn_norm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps, .norm = "embedding_norm"}, inputs,
                     layer);
}

Architecture lfm2_layers_architecture(std::string name, std::string model_type, std::string gguf) {
  Architecture made{.name = std::move(name), .model_type = std::move(model_type), .gguf = std::move(gguf)};
  made.gguf_rope_factors = false;
  made.rope_tables = one_rope_table;
  made.cache_specs = cache_specs;
  made.head = tied_or_own_head;
  return made;
}

}  // namespace tern::models
