#include "models/gemma4_experts.h"

#include <cmath>

#include "base/strings.h"
#include "models/experts.h"
#include "nn/moe.h"
#include "nn/norm.h"
#include "nn/scale.h"

namespace tern::models {
namespace {

constexpr const char* kEnabled = "enable_moe_block";
constexpr const char* kExperts = "num_experts";
constexpr const char* kTopK = "top_k_experts";
constexpr const char* kInner = "moe_intermediate_size";
constexpr const char* kScale = ".router.scale";
constexpr const char* kExpertScale = "router.per_expert_scale";

// Without experts the three numbers mean nothing.
std::string are_experts(const ModelConfig& config, const FieldValue& value) {
  return has_gemma4_experts(config) ? is_experts(config, value) : "";
}
std::string are_chosen(const ModelConfig& config, const FieldValue& value) {
  return has_gemma4_experts(config) ? is_top_k(config, value) : "";
}
std::string is_inner(const ModelConfig& config, const FieldValue& value) {
  return has_gemma4_experts(config) ? is_size(config, value) : "";
}

}  // namespace

std::vector<Field> gemma4_expert_fields() {
  const FieldValue size = std::int64_t{0};
  const Default none = {size, size, size, true};
  Field enabled = {kEnabled, "", FieldValue(false), otherwise(FieldValue(false))};
  enabled.tensor = {GgufTensorSays::What::present, "blk.0.ffn_gate_inp.weight"};
  return {std::move(enabled),
          {kExperts, "expert_count", size, none, are_experts},
          {kTopK, "expert_used_count", size, none, are_chosen},
          {kInner, "expert_feed_forward_length", size, none, is_inner}};
}

bool has_gemma4_experts(const ModelConfig& config) { return config.own_field<bool>(kEnabled); }

void add_gemma4_experts(ParameterList& list, const ModelConfig& config, const std::string& module,
                        const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size;
  const auto experts = config.own_field<std::int64_t>(kExperts);
  list.tensor(module + kScale, {hidden}, gguf + ".ffn_gate_inp.scale");
  list.tensor(cat(module, ".", kExpertScale), {experts}, gguf + ".ffn_down_exps.scale");
  list.experts(module, module, gguf, hidden,
               {.experts = experts,
                .inner = config.own_field<std::int64_t>(kInner),
                .router = "router.proj",
                .fused = {.gate_up = ".experts.gate_up_proj",
                          .down = ".experts.down_proj",
                          .router = ".router.proj.weight",
                          .in_gguf = true}});
  list.norm(module + ".pre_feedforward_layernorm_2", gguf + ".pre_ffw_norm_2", hidden);
  list.norm(module + ".post_feedforward_layernorm_1", gguf + ".post_ffw_norm_1", hidden);
  list.norm(module + ".post_feedforward_layernorm_2", gguf + ".post_ffw_norm_2", hidden);
}

nn::Value beside_gemma4_experts(nn::Context& context, const ModelConfig& config, const std::string& module,
                                nn::Value stream, nn::Value fed) {
  const double eps = config.rms_norm_eps;
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>(kExperts),
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .normalise = true,
                          .act = TERN_ACT_GELU_TANH,
                          .router = "router.proj",
                          .expert_scale = kExpertScale};
  const nn::Value routed = nn::scaled(context, nn::branch_norm_by(context, module + kScale, eps, stream),
                                      1.0 / std::sqrt(static_cast<double>(config.hidden_size)));
  const nn::Value chosen =
      nn::moe(context, module, moe, nn::branch_norm(context, module + ".pre_feedforward_layernorm_2", eps, stream),
              {.routed = routed});
  return nn::weighted_sum(context, 1.0, nn::branch_norm(context, module + ".post_feedforward_layernorm_1", eps, fed),
                          1.0, nn::branch_norm(context, module + ".post_feedforward_layernorm_2", eps, chosen));
}

}  // namespace tern::models
