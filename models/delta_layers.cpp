#include "models/delta_layers.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/gated_delta_net.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kLinear = "linear_attention";
constexpr const char* kFull = "full_attention";
constexpr const char* kValueDim = "linear_value_head_dim";
constexpr const char* kKeyDim = "linear_key_head_dim";
constexpr const char* kValueHeads = "linear_num_value_heads";
constexpr const char* kKeyHeads = "linear_num_key_heads";
constexpr const char* kKernel = "linear_conv_kernel_dim";
constexpr float kNormOffset = 1.0F;  // norms multiply by 1 + weight

std::int64_t number(const ModelConfig& config, const char* key) { return config.own_field<std::int64_t>(key); }

FieldValue key_dim(const ModelConfig& config) { return number(config, kKeyDim); }
FieldValue value_features(const ModelConfig& config) { return number(config, kValueDim) * number(config, kValueHeads); }

FieldValue every_nth(const ModelConfig& config) {
  Texts types;
  const std::int64_t period = number(config, "full_attention_interval");
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.emplace_back((layer + 1) % period == 0 ? kFull : kLinear);
  return types;
}

std::string is_multiple_of_key_heads(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  const std::int64_t heads = number(config, kKeyHeads);
  return std::get<std::int64_t>(value) % heads == 0 ? "" : cat("a multiple of ", heads, " heads of keys");
}

std::string is_value_features(const ModelConfig& config, const FieldValue& value) {
  return value == value_features(config) ? "" : cat(value_text(value_features(config)), ", all heads' of values");
}

std::string are_types(const ModelConfig& config, const FieldValue& value) {
  return are_words_of_layers(config, value, kLinear, kFull)
             ? ""
             : cat(kLinear, " or ", kFull, " for each of ", config.num_hidden_layers, " layers");
}

// Those behind the model's own do, which the configuration doesn't name.
bool attends(const ModelConfig& config, std::int64_t layer) {
  const auto& types = config.own_field<Texts>("layer_types");
  const auto at = static_cast<std::size_t>(layer);
  return at >= types.size() || types[at] == kFull;
}

nn::GatedDeltaNetConfig delta_net(const ModelConfig& config, Projections projections) {
  return {.k_heads = number(config, kKeyHeads),
          .heads = number(config, kValueHeads),
          .key_dim = number(config, kKeyDim),
          .value_dim = number(config, kValueDim),
          .kernel = number(config, kKernel),
          .eps = config.rms_norm_eps,
          .is_joined = projections == Projections::joined};
}

// Rows or columns of heads of values, from `first` on, as a GGUF has them.
TiledHeads tiled(const nn::GatedDeltaNetConfig& net, std::int64_t size, std::int64_t first = 0) {
  const bool moves = net.heads > net.k_heads && !net.is_joined;
  return {moves ? net.k_heads : 0, net.heads / net.k_heads, size, first};
}

void add_projections(ParameterList& list, const nn::GatedDeltaNetConfig& net, std::int64_t hidden,
                     const std::string& module, const std::string& gguf) {
  const std::int64_t values = net.heads * net.value_dim;
  const auto linear = [&](const char* part, const char* theirs, std::int64_t out, const TiledHeads& rows) {
    list.linear(cat(module, ".in_proj_", part), cat(gguf, ".", theirs), {out, hidden}).gguf.tiled_rows = rows;
  };
  linear("qkv", "attn_qkv", net.channels(), tiled(net, net.value_dim, 2 * net.k_heads * net.key_dim));
  linear("z", "attn_gate", values, tiled(net, net.value_dim));
  linear("b", "ssm_beta", net.heads, tiled(net, 1));
  linear("a", "ssm_alpha", net.heads, tiled(net, 1));
}

// A Hugging Face directory goes by heads of keys, each with its values' heads; so does a GGUF with b and a.
void add_joined_projections(ParameterList& list, const nn::GatedDeltaNetConfig& net, std::int64_t hidden,
                            const std::string& module, const std::string& gguf) {
  const std::int64_t values = net.heads * net.value_dim;
  const std::int64_t of_key = net.heads / net.k_heads;
  ParameterSpec& qkvz = list.linear(module + ".in_proj_qkvz", "", {net.channels() + values, hidden});
  qkvz.hugging_face.parts = {net.k_heads, {net.key_dim, net.key_dim, of_key * net.value_dim, of_key * net.value_dim}};
  qkvz.gguf.tensors = {gguf + ".attn_qkv.weight", gguf + ".attn_gate.weight"};
  qkvz.gguf.joined = {net.channels(), values};
  ParameterSpec& ba = list.linear(module + ".in_proj_ba", gguf + ".ssm_ba", {2 * net.heads, hidden});
  ba.hugging_face.parts = ba.gguf.parts = {net.k_heads, {of_key, of_key}};
}

void add_delta_net(ParameterList& list, const ModelConfig& config, const nn::GatedDeltaNetConfig& net,
                   const std::string& module, const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size;
  (net.is_joined ? add_joined_projections : add_projections)(list, net, hidden, module, gguf);
  ParameterSpec& conv =
      list.tensor(module + ".conv1d.weight", {net.channels(), net.kernel}, gguf + ".ssm_conv1d.weight");
  conv.hugging_face.is_depthwise = true;
  conv.gguf.tiled_rows = tiled(net, net.value_dim, 2 * net.k_heads * net.key_dim);
  list.tensor(module + ".dt_bias", {net.heads}, gguf + ".ssm_dt.bias").gguf.tiled_rows = tiled(net, 1);
  ParameterSpec& rate = list.tensor(module + ".A_log", {net.heads}, gguf + ".ssm_a");
  rate.gguf.tiled_rows = tiled(net, 1);
  rate.gguf.is_minus_exp = true;
  list.norm(module + ".norm", gguf + ".ssm_norm", net.value_dim);
  list.linear(module + ".out_proj", gguf + ".ssm_out", {hidden, net.heads * net.value_dim}).gguf.tiled_columns =
      tiled(net, net.value_dim);
}

}  // namespace

std::vector<Field> delta_layer_fields() {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue size = std::int64_t{0};
  Field types = {"layer_types", "attention.recurrent_layers", FieldValue(Texts()), otherwise(every_nth), are_types};
  types.gguf_words = {kFull, kLinear};
  return {
      {kKernel, "ssm.conv_kernel", size, required_in_gguf(count(4)), is_kernel},
      {kKeyDim, "ssm.state_size", size, required_in_gguf(count(128)), is_size},
      {kKeyHeads, "ssm.group_count", size, required_in_gguf(count(16)), is_size},
      {kValueHeads, "ssm.time_step_rank", size, required_in_gguf(count(32)), is_multiple_of_key_heads},
      {kValueDim, "", size, Default{count(128), {}, key_dim, false}, is_size},
      {"", "ssm.inner_size", size, otherwise(value_features), is_value_features},
      {"full_attention_interval", "full_attention_interval", size, otherwise(count(4)), is_size},
      std::move(types),
  };
}

std::vector<ParameterSpec> delta_layer_parameters(const ModelConfig& config, Projections projections,
                                                  DecoderParameters options) {
  options.qk_norm = nn::QkNorm::head;
  options.is_gated = true;
  options.gguf_norm_added = -kNormOffset;
  options.gguf_mlp_norm = "post_attention_norm";
  options.mixer = [&config, projections](ParameterList& list, std::int64_t layer, const std::string& module,
                                         const std::string& gguf) {
    if (attends(config, layer)) return false;
    add_delta_net(list, config, delta_net(config, projections), module + ".linear_attn", gguf);
    return true;
  };
  return decoder_parameters(config, options);
}

nn::DecoderLayer delta_layer(nn::Context& context, const ModelConfig& config, Projections projections,
                             const nn::TokenInputs& inputs, FeedForward feed_forward) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .is_gated = true,
                                      .qk_norm = nn::QkNorm::head,
                                      .eps = config.rms_norm_eps,
                                      .norm_offset = kNormOffset};
  return [&context, &config, &inputs, attention, net = delta_net(config, projections), eps = config.rms_norm_eps,
          feed_forward = std::move(feed_forward)](std::int64_t index, const std::string& module, nn::Residual& x) {
    const nn::Value h = nn::norm(context, module + ".input_layernorm", eps, x, kNormOffset);
    x.add(attends(config, index) ? nn::attention(context, module + ".self_attn", attention, inputs, h)
                                 : nn::gated_delta_net(context, module + ".linear_attn", net, inputs, h));
    x.add(feed_forward(index, module + ".mlp",
                       nn::norm(context, module + ".post_attention_layernorm", eps, x, kNormOffset)));
  };
}

nn::Value delta_hidden_states(nn::Context& context, const ModelConfig& config, Projections projections,
                              const nn::TokenInputs& inputs, FeedForward feed_forward) {
  return nn::decoder(context,
                     {.layers = config.num_hidden_layers, .eps = config.rms_norm_eps, .norm_offset = kNormOffset},
                     inputs, delta_layer(context, config, projections, inputs, std::move(feed_forward)));
}

std::vector<nn::CacheSpec> delta_layer_caches(const ModelConfig& config) {
  std::vector<nn::CacheSpec> specs =
      attention_caches(config, std::vector<std::int64_t>(static_cast<std::size_t>(config.num_hidden_layers), 0));
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (attends(config, layer)) continue;
    specs[static_cast<std::size_t>(layer)] =
        nn::delta_net_cache(cat("model.layers.", layer, ".linear_attn"), delta_net(config, Projections::apart));
  }
  return specs;
}

}  // namespace tern::models
