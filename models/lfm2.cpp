#include "models/lfm2.h"

#include <algorithm>

#include "base/strings.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/short_conv.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;
using Layers = std::vector<std::int64_t>;
using C = ModelConfig;

constexpr const char* kConv = "conv";
constexpr const char* kFull = "full_attention";
constexpr const char* kTypes = "layer_types";
constexpr const char* kAttending = "full_attn_idxs";
constexpr const char* kWidth = "intermediate_size";
constexpr const char* kAdjust = "block_auto_adjust_ff_dim";
constexpr const char* kMultiplier = "block_ffn_dim_multiplier";
constexpr const char* kMultiple = "block_multiple_of";
constexpr const char* kKernel = "conv_L_cache";
constexpr const char* kConvBias = "conv_bias";

// The mlp's width: two thirds of what config.json says, times a factor, up to a multiple of a number. 0, which is no
// size, before those are read and where it would be too large.
FieldValue width(const ModelConfig& config) {
  if (!config.own.contains(kMultiple)) return std::int64_t{0};
  auto size = config.own_field<std::int64_t>(kWidth);
  if (!config.own_field<bool>(kAdjust)) return size;
  size = static_cast<std::int64_t>(static_cast<double>(2 * size) / 3.0);
  const double scaled = config.own_field<double>(kMultiplier) * static_cast<double>(size);
  if (scaled > 0x1p31) return std::int64_t{0};
  size = static_cast<std::int64_t>(scaled);
  const auto multiple = config.own_field<std::int64_t>(kMultiple);
  return (size + multiple - 1) / multiple * multiple;
}
std::string gives_width(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return is_size(config, width(config)).empty() ? "" : "what gives the mlp a width from 1 to 2^31";
}
FieldValue known_width(const ModelConfig& config) { return config.intermediate_size; }

FieldValue by_indices(const ModelConfig& config) {
  const auto& indices = config.own_field<Layers>(kAttending);
  Texts types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool attends = indices.empty() || std::find(indices.begin(), indices.end(), layer) != indices.end();
    types.emplace_back(attends ? kFull : kConv);
  }
  return types;
}

std::string are_types(const ModelConfig& config, const FieldValue& value) {
  if (!are_words_of_layers(config, value, kConv, kFull))
    return cat(kConv, " or ", kFull, " for each of ", config.num_hidden_layers, " layers");
  return divides_heads(config, config.num_key_value_heads);  // which a GGUF says with them
}

std::vector<Field> fields() {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue none = Layers();
  Field raw = {kWidth, kImplied, count(0), Default{count(12288), {}, known_width, false}, is_size};
  raw.also = "block_ff_dim";
  Field tied = {"tie_word_embeddings",       "",      &C::tie_word_embeddings,
                otherwise(FieldValue(true)), nullptr, {GgufTensorSays::What::absent, "output.weight"}};
  tied.also = "tie_embedding";
  Field types = {kTypes, "attention.head_count_kv", FieldValue(Texts()), otherwise(by_indices), are_types};
  types.gguf_words = {kConv, kFull, &C::num_key_value_heads};
  std::vector<Field> own = {
      {"num_key_value_heads", kImplied, &C::num_key_value_heads, otherwise(count(8), as_many_as_heads), divides_heads},
      {"rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(1000000.0)), is_positive},
      std::move(tied),
      {kKernel, "shortconv.l_cache", count(0), required_in_gguf(count(3)), is_kernel},
      {kConvBias, "", FieldValue(false), otherwise(FieldValue(false))},
      {kAttending, kImplied, none, otherwise(none, none)},
      std::move(types),
      // A GGUF has the width itself.
      {"", "feed_forward_length", &C::intermediate_size, otherwise(width)},
      std::move(raw),
      {kAdjust, kImplied, FieldValue(false), Default{FieldValue(true), {}, FieldValue(false), false}},
      {kMultiplier, kImplied, FieldValue(1.0), otherwise(FieldValue(1.0), FieldValue(1.0)), is_positive},
      {kMultiple, kImplied, count(0), otherwise(count(256)), gives_width},
      {"", kImplied, &C::intermediate_size, otherwise(width)},
  };
  std::vector<Field> fields = decoder_fields({.num_key_value_heads = otherwise(count(8)),
                                              .head_dim = otherwise(hidden_over_heads),
                                              .max_position_embeddings = 128000,
                                              .bos_token_id = std::int64_t{1},
                                              .eos_token_ids = Layers{2}});
  for (Field& field : fields) {
    if (std::string_view(field.json) == "rms_norm_eps") field.json = "norm_eps";
  }
  std::erase_if(fields, [](const Field& field) { return std::string_view(field.json) == kWidth; });
  return with_fields(std::move(fields), std::move(own));
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

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t wide = config.intermediate_size;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    list.norm(module + ".operator_norm", gguf + ".attn_norm", hidden);
    add_mixer(list, config, layer, module, gguf);
    list.norm(module + ".ffn_norm", gguf + ".ffn_norm", hidden);
    list.linear(module + ".feed_forward.w1", gguf + ".ffn_gate", {wide, hidden});
    list.linear(module + ".feed_forward.w3", gguf + ".ffn_up", {wide, hidden});
    list.linear(module + ".feed_forward.w2", gguf + ".ffn_down", {hidden, wide});
  }
  list.norm("model.embedding_norm", "token_embd_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
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
    x.add(nn::gated_mlp(context, module + ".feed_forward", nn::norm(context, module + ".ffn_norm", eps, x),
                        TERN_ACT_SILU, {"w1", "w3", "w2"}));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps, .norm = "embedding_norm"}, inputs,
                     layer);
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

Architecture lfm2_architecture() {
  return {.name = "Lfm2ForCausalLM",
          .model_type = "lfm2",
          .gguf = "lfm2",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
