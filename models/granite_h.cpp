#include "models/granite_h.h"

#include <algorithm>

#include "base/strings.h"
#include "models/experts.h"
#include "models/granite.h"
#include "models/mamba_layers.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace tern::models {
namespace {

using C = ModelConfig;
using Texts = std::vector<std::string>;

constexpr const char* kMamba = "linear_attention";
constexpr const char* kFull = "full_attention";
constexpr const char* kTypes = "layer_types";
constexpr const char* kPositions = "position_embedding_type";
constexpr const char* kTurning = "rope";
constexpr const char* kExperts = "num_local_experts";
constexpr const char* kTopK = "num_experts_per_tok";
constexpr const char* kShared = "shared_intermediate_size";
constexpr const char* kBlock = "block_sparse_moe";
constexpr const char* kRouter = "router";
const nn::FusedMlpParts kMlp = {"input_linear", "output_linear"};

bool has_experts(const C& config) { return config.own_field<std::int64_t>(kExperts) > 0; }
bool attends(const C& config, std::int64_t layer) {
  return config.own_field<Texts>(kTypes)[static_cast<std::size_t>(layer)] == kFull;
}
bool turns(const C& config) { return config.own_field<std::string>(kPositions) == kTurning; }

FieldValue all_mamba(const C& config) { return Texts(static_cast<std::size_t>(config.num_hidden_layers), kMamba); }
FieldValue as_wide(const C& config) { return config.intermediate_size; }

std::string are_types(const C& config, const FieldValue& value) {
  const auto& types = std::get<Texts>(value);
  if (!are_words_of_layers(config, value, kMamba, kFull))
    return cat("mamba or attention (", kMamba, ", ", kFull, ") for each of ", config.num_hidden_layers, " layers");
  if (std::find(types.begin(), types.end(), kFull) == types.end()) return "";
  return divides_heads(config, config.num_key_value_heads);  // which a GGUF says with them
}

std::string are_experts_or_none(const C& config, const FieldValue& value) {
  return std::get<std::int64_t>(value) == 0 ? "" : is_experts(config, value);
}
std::string is_top_k_of_any(const C& config, const FieldValue& value) {
  return has_experts(config) ? is_top_k(config, value) : is_count(config, value);
}
std::string is_kind_of_positions(const C& /*config*/, const FieldValue& value) {
  const auto& kind = std::get<std::string>(value);
  return kind == kTurning || kind == "nope" ? "" : "\"rope\" or \"nope\"";
}

std::vector<Field> fields() {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue size = std::int64_t{0};
  const FieldValue none = std::string("nope");
  Field types = {kTypes, "attention.head_count_kv", FieldValue(Texts()), otherwise(all_mamba), are_types};
  types.gguf_words = {kMamba, kFull, &C::num_key_value_heads, "mamba", "attention"};
  Field positions = {kPositions, "rope.scaling.finetuned", none,
                     Default{none, none, FieldValue(std::string(kTurning)), false}, is_kind_of_positions};
  positions.gguf_words = {"nope", kTurning};
  std::vector<Field> own = {
      {"num_key_value_heads", kImplied, &C::num_key_value_heads, otherwise(as_many_as_heads), divides_heads},
      {"attention_bias", "", &C::attention_bias, otherwise(FieldValue(false))},
      {kExperts, "expert_count", size, Default{count(8), size, size, false}, are_experts_or_none},
      {kTopK, "expert_used_count", size, Default{count(2), size, size, false}, is_top_k_of_any},
      {kShared, "expert_shared_feed_forward_length", size, Default{count(1024), {}, as_wide, false}, is_size},
      std::move(types),
      std::move(positions),
  };
  for (Field& field : mamba_fields(Width::times_hidden)) own.push_back(std::move(field));
  std::vector<Field> fields = granite_fields();
  std::erase_if(fields, [](const Field& field) { return std::string_view(field.gguf) == "rope.scaling.finetuned"; });
  return with_fields(std::move(fields), std::move(own));
}

void add_attention(ParameterList& list, const C& config, const std::string& module, const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size, heads = config.num_attention_heads;
  const std::int64_t kv_heads = config.num_key_value_heads, dim = config.head_dim;
  const bool bias = config.attention_bias;
  list.linear(module + ".q_proj", gguf + ".attn_q", {heads * dim, hidden, bias, heads, config.rotary_dim});
  list.linear(module + ".k_proj", gguf + ".attn_k", {kv_heads * dim, hidden, bias, kv_heads, config.rotary_dim});
  list.linear(module + ".v_proj", gguf + ".attn_v", {kv_heads * dim, hidden, bias});
  list.linear(module + ".o_proj", gguf + ".attn_output", {hidden, heads * dim, bias});
}

// In a GGUF, the mlp that all tokens share has its usual names where it is the only one.
void add_mlps(ParameterList& list, const C& config, const std::string& module, const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size, shared = config.own_field<std::int64_t>(kShared);
  const std::string which = has_experts(config) ? "_shexp" : "";
  if (has_experts(config)) {
    const std::string block = cat(module, ".", kBlock);
    list.experts(block, block, gguf, hidden,
                 {.experts = config.own_field<std::int64_t>(kExperts),
                  .inner = config.intermediate_size,
                  .module = kBlock,
                  .router = kRouter,
                  .block = kBlock,
                  .fused = {".input_linear.weight", ".output_linear.weight", ".router.layer.weight"}});
  }
  ParameterSpec& both = list.linear(cat(module, ".shared_mlp.", kMlp.gate_up), "", {2 * shared, hidden});
  both.gguf.tensors = {cat(gguf, ".ffn_gate", which, ".weight"), cat(gguf, ".ffn_up", which, ".weight")};
  both.gguf.joined = {shared, shared};
  list.linear(cat(module, ".shared_mlp.", kMlp.down), cat(gguf, ".ffn_down", which), {hidden, shared});
}

std::vector<ParameterSpec> parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden);
    if (attends(config, layer)) {
      add_attention(list, config, module + ".self_attn", gguf);
    } else {
      add_mamba(list, config, module + ".mamba", gguf, {.out_bias = config.own_field<bool>("mamba_proj_bias")});
    }
    list.norm(module + ".post_attention_layernorm", gguf + ".ffn_norm", hidden);
    add_mlps(list, config, module, gguf);
  }
  list.norm("model.norm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

nn::Value hidden_states(nn::Context& context, const C& config, const nn::TokenInputs& inputs) {
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>(kExperts),
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .normalise = true,
                          .router = kRouter};
  const auto mlp = [&](const std::string& layer, nn::Value x) {
    const nn::Value shared = nn::fused_gated_mlp(context, layer + ".shared_mlp", x, kMlp);
    return has_experts(config) ? nn::moe(context, cat(layer, ".", kBlock), moe, x, {.added = shared}) : shared;
  };
  const auto mixer = [&](std::int64_t index, const std::string& layer, nn::Value x) {
    return attends(config, index) ? nn::Value{}
                                  : nn::mamba2(context, layer + ".mamba", mamba_config(config), inputs, x);
  };
  return granite_hidden_states(context, config, inputs, mlp, {turns(config), mixer});
}

std::vector<RopeTable> rope_tables(const C& config) {
  return turns(config) ? one_rope_table(config) : std::vector<RopeTable>{};
}

std::vector<nn::CacheSpec> cache_specs(const C& config) {
  std::vector<nn::CacheSpec> specs = even_caches(config);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (attends(config, layer)) continue;
    specs[static_cast<std::size_t>(layer)] =
        nn::mamba2_cache(cat("model.layers.", layer, ".mamba"), mamba_config(config));
  }
  return specs;
}

}  // namespace

Architecture granite_h_architecture() {
  return {.name = "GraniteMoeHybridForCausalLM",
          .model_type = "granitemoehybrid",
          .gguf = "granitehybrid",
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = granite_head};
}

}  // namespace tern::models
