#include "models/experts.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

using Layers = std::vector<std::int64_t>;

constexpr std::int64_t kMostExperts =
    1 << 20;  // of all layers: beyond it the list of their weights alone would fill memory

constexpr const char* kRouted = "n_routed_experts";
constexpr std::int64_t kGgufSigmoid = 2;  // llama.cpp's number of that gating function

// Each group is judged by its best two.
std::string divides_experts(const ModelConfig& config, const FieldValue& value) {
  const auto groups = std::get<std::int64_t>(value);
  const auto experts = config.own_field<std::int64_t>(kRouted);
  return groups >= 1 && experts % groups == 0 && (groups == 1 || experts / groups >= 2)
             ? ""
             : cat("a number of groups of at least two that divides ", experts, " experts");
}

std::string is_top_groups(const ModelConfig& config, const FieldValue& value) {
  const auto chosen = std::get<std::int64_t>(value);
  const auto groups = config.own_field<std::int64_t>("n_group");
  const bool enough = chosen >= 1 && chosen <= groups &&
                      chosen * config.own_field<std::int64_t>(kRouted) / groups >=
                          config.own_field<std::int64_t>("num_experts_per_tok");
  return enough ? "" : cat("1 to ", groups, " groups that hold num_experts_per_tok experts");
}

std::string is_sigmoid(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::int64_t>(value) == kGgufSigmoid ? "" : cat(kGgufSigmoid, ", the sigmoid");
}

}  // namespace

Field sigmoid_gating_field() {
  const FieldValue sigmoid = kGgufSigmoid;
  return {"", "expert_gating_func", sigmoid, otherwise(sigmoid), is_sigmoid};
}

std::string are_layers(const ModelConfig& config, const FieldValue& value) {
  const auto& layers = std::get<Layers>(value);
  const bool fit = std::all_of(layers.begin(), layers.end(),
                               [&](std::int64_t layer) { return layer >= 0 && layer < config.num_hidden_layers; });
  return fit ? "" : cat("layers from 0 to ", config.num_hidden_layers - 1);
}

std::string is_top_k(const ModelConfig& config, const FieldValue& value) {
  const auto top_k = std::get<std::int64_t>(value);
  const char* of = "num_local_experts";
  for (const char* key : {"num_experts", kRouted}) of = config.own.contains(key) ? key : of;
  const auto experts = config.own_field<std::int64_t>(of);
  return top_k >= 1 && top_k <= experts ? "" : cat("1 to ", experts, ", as many experts as there are");
}

std::string is_experts(const ModelConfig& config, const FieldValue& value) {
  const auto experts = std::get<std::int64_t>(value);
  const std::int64_t most = kMostExperts / std::max<std::int64_t>(config.num_hidden_layers, 1);
  return experts >= 1 && experts <= most ? "" : cat("1 to ", most, " experts");
}

std::vector<Field> expert_fields(const ExpertDefaults& defaults) {
  const FieldValue size = std::int64_t{0};
  const FieldValue none = Layers();
  return {
      {"num_experts",
       "expert_count",
       size,
       required_in_gguf(defaults.num_experts),
       is_experts,
       {},
       "num_local_experts"},
      {"num_experts_per_tok", "expert_used_count", size, required_in_gguf(defaults.num_experts_per_tok), is_top_k},
      {"moe_intermediate_size", "expert_feed_forward_length", size, required_in_gguf(defaults.moe_intermediate_size),
       is_size},
      {"norm_topk_prob", "", FieldValue(false),
       Default{FieldValue(false), {}, FieldValue(defaults.gguf_normalises), false}},
      {"decoder_sparse_step", "", size, otherwise(FieldValue(std::int64_t{1})), is_size},
      {"mlp_only_layers", "", none, otherwise(none, none), are_layers},
  };
}

std::vector<Field> routed_expert_fields(const RoutedExpertDefaults& defaults) {
  const FieldValue size = std::int64_t{0};
  const FieldValue one = std::int64_t{1};
  Field layers = {"num_hidden_layers", "block_count", &ModelConfig::num_hidden_layers, required(), is_layers};
  layers.gguf_less = "nextn_predict_layers";
  Field predicted = {"num_nextn_predict_layers", kImplied, size, otherwise(one, size), is_count};
  predicted.also = "num_mtp_layers";
  Field experts = {kRouted, "expert_count", size, required_in_gguf(defaults.n_routed_experts), is_experts};
  experts.also = "num_local_experts";
  return {
      std::move(layers),
      std::move(predicted),
      std::move(experts),
      {"num_experts_per_tok", "expert_used_count", size, required_in_gguf(defaults.num_experts_per_tok), is_top_k},
      {"moe_intermediate_size", "expert_feed_forward_length", size, required_in_gguf(defaults.moe_intermediate_size),
       is_size},
      {"n_shared_experts", "expert_shared_count", size, required_in_gguf(std::int64_t{1}), is_count},
      {"norm_topk_prob", "expert_weights_norm", FieldValue(false),
       Default{FieldValue(true), {}, FieldValue(false), false}},
      {"routed_scaling_factor", "expert_weights_scale", FieldValue(1.0),
       Default{FieldValue(defaults.routed_scaling_factor), FieldValue(1.0), FieldValue(1.0), false}, is_positive},
      {"n_group", "expert_group_count", size, Default{FieldValue(defaults.n_group), one, one, false}, divides_experts},
      {"topk_group", "expert_group_used_count", size, Default{FieldValue(defaults.topk_group), one, one, false},
       is_top_groups},
      {"first_k_dense_replace", "leading_dense_block_count", size,
       Default{FieldValue(defaults.first_k_dense_replace), {}, size, false}, is_count},
      sigmoid_gating_field(),
  };
}

ExpertParameters routed_expert_parameters(const ModelConfig& config) {
  const auto inner = config.own_field<std::int64_t>("moe_intermediate_size");
  return {.experts = config.own_field<std::int64_t>(kRouted),
          .inner = inner,
          .shared_inner = inner * config.own_field<std::int64_t>("n_shared_experts"),
          .shared = "shared_experts",
          .correction_bias = true};
}

nn::MoeConfig routed_experts(const ModelConfig& config) {
  const auto groups = config.own_field<std::int64_t>("n_group");
  return {.experts = config.own_field<std::int64_t>(kRouted),
          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
          .sigmoid = true,
          .normalise = config.own_field<bool>("norm_topk_prob"),
          .scale = static_cast<float>(config.own_field<double>("routed_scaling_factor")),
          .groups = static_cast<std::int32_t>(groups),
          .top_groups = static_cast<std::int32_t>(config.own_field<std::int64_t>("topk_group")),
          .group_top = groups > 1 ? 2 : 1,
          .shared = config.own_field<std::int64_t>("n_shared_experts") > 0 ? "shared_experts" : ""};
}

std::vector<bool> routed_layers(const ModelConfig& config) {
  const auto dense = config.own_field<std::int64_t>("first_k_dense_replace");
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) sparse.push_back(layer >= dense);
  return sparse;
}

std::vector<bool> sparse_layers(const ModelConfig& config) {
  const auto step = config.own_field<std::int64_t>("decoder_sparse_step");
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  for (const std::int64_t layer : config.own_field<Layers>("mlp_only_layers")) {
    sparse[static_cast<std::size_t>(layer)] = false;
  }
  return sparse;
}

nn::DecoderLayer expert_layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                              const nn::AttentionConfig& attention, const nn::MoeConfig& moe,
                              std::vector<bool> sparse) {
  return [&context, &inputs, attention, moe, sparse = std::move(sparse), eps = config.rms_norm_eps](
             std::int64_t index, const std::string& module, nn::Residual& x) {
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    const nn::Value h = nn::norm(context, module + ".post_attention_layernorm", eps, x);
    const bool has_experts = sparse[static_cast<std::size_t>(index)];
    x.add(has_experts ? nn::moe(context, module + ".mlp", moe, h) : nn::gated_mlp(context, module + ".mlp", h));
  };
}

nn::Value expert_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                               const nn::AttentionConfig& attention, const nn::MoeConfig& moe,
                               const std::vector<bool>& sparse) {
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = config.rms_norm_eps}, inputs,
                     expert_layer(context, config, inputs, attention, moe, sparse));
}

}  // namespace tern::models
