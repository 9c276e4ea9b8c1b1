#include "models/mistral4.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/strings.h"
#include "models/deepseek.h"
#include "models/rope.h"

namespace tern::models {
namespace {

// What rope_parameters say of a head, of which the turned features are a part of their own here.
FieldValue share_of_turned(const ModelConfig& config) {
  const auto turned = static_cast<double>(config.head_dim);
  return turned / (static_cast<double>(config.own_field<std::int64_t>(kPlainSize)) + turned);
}
std::string is_share_of_turned(const ModelConfig& config, const FieldValue& value) {
  const double share = std::get<double>(share_of_turned(config));
  return std::fabs(std::get<double>(value) - share) < 1e-6 ? "" : cat(share, ", the turned features");
}

std::vector<Field> fields() {
  using C = ModelConfig;
  const FieldValue size = std::int64_t{0};
  Field share = {"partial_rotary_factor", "", &C::rope_share, otherwise(share_of_turned), is_share_of_turned};
  share.in_rope = true;
  std::vector<Field> all = deepseek_fields(
      {{128, 4, 2048, 0}, 1048576, 1, 2},
      {{"q_lora_rank", "attention.q_lora_rank", size, Default{FieldValue(std::int64_t{1024}), size, size, false},
        is_count},
       {"kv_lora_rank", "attention.kv_lora_rank", size, required_in_gguf(FieldValue(std::int64_t{256})), is_size},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{11}), FieldValue(std::int64_t{-1}))},
       {"rope_interleave", "", FieldValue(true), otherwise(FieldValue(true)), is_true},
       query_growth_field(),
       growth_period_field(),
       share});
  use_softmax_gating(all);
  const auto plain = std::find_if(all.begin(), all.end(),
                                  [](const Field& field) { return std::string_view(field.json) == kPlainSize; });
  plain->otherwise.json = plain->otherwise.null = FieldValue(std::int64_t{64});
  plain->law = is_even_size;
  // Its head_dim is that of plain and turned features together.
  const auto head = std::find_if(all.begin(), all.end(),
                                 [](const Field& field) { return std::string_view(field.json) == "head_dim"; });
  *head = {"head_dim", kImplied, size, otherwise(size), is_count};
  all.insert(head, {"", kImplied, &C::head_dim, otherwise(turned_size), is_even_size});
  return all;
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  ExpertParameters experts = routed_expert_parameters(config);
  experts.correction_bias = false;
  experts.fused = {".experts.gate_up_proj", ".experts.down_proj", ".gate.weight"};
  experts.fused.in_gguf = true;
  return deepseek_parameters(config, experts);
}

// Positions turn no plain feature, but make those of queries grow.
std::vector<RopeTable> rope_tables(const ModelConfig& config) {
  RopeTable plain = query_rope_table(config, kPlainQueryRope);
  plain.frequencies.assign(static_cast<std::size_t>(config.own_field<std::int64_t>(kPlainSize) / 2), 0.0);
  plain.amplitude = 1.0;
  return {scaled_rope_table(config), query_rope_table(config, kQueryRope), plain};
}

// The softmax of each expert, and groups by the best two of each.
nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::MoeConfig moe = routed_experts(config);
  moe.sigmoid = false;
  return deepseek_hidden_states(context, config, inputs, moe);
}

}  // namespace

Architecture mistral4_architecture() {
  Architecture made = deepseek_architecture("Mistral4ForCausalLM", "mistral4");
  made.fields = fields();
  made.gguf = "mistral4";
  made.gguf_yarn_tenth = true;
  made.parameters = parameters;
  made.rope_tables = rope_tables;
  made.hidden_states = hidden_states;
  return made;
}

}  // namespace tern::models
