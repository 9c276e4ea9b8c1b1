#include "models/deepseek_fields.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"

namespace tern::models {
namespace {

using Text = std::string;

constexpr const char* kScores = "scoring_func";
// What llama.cpp says of heads, of whose keys and values it keeps the latent vector alone: one head of keys.
constexpr const char* kGgufHeads = "attention.head_count_kv";
constexpr const char* kGgufKey = "attention.key_length";
constexpr const char* kGgufValue = "attention.value_length";
constexpr const char* kGgufWholeKey = "attention.key_length_mla";
constexpr const char* kGgufGating = "expert_gating_func";
constexpr std::int64_t kGgufSoftmax = 1;  // llama.cpp's numbers of gating functions; none of V2 is a softmax, too
constexpr std::int64_t kGgufSigmoid = 2;

std::int64_t own_size(const ModelConfig& config, const char* key) {
  const auto found = config.own.find(key);
  return found == config.own.end() ? 0 : std::get<std::int64_t>(found->second);
}
// 0 before its parts are known: a GGUF has the whole before them.
FieldValue whole_key(const ModelConfig& config) {
  return config.own.contains(kPlainSize) ? own_size(config, kPlainSize) + own_size(config, kTurned) : std::int64_t{0};
}
FieldValue plain_of_key(const ModelConfig& config) {
  return own_size(config, kGgufWholeKey) - own_size(config, kTurned);
}
FieldValue latent_key(const ModelConfig& config) { return own_size(config, kKvRank) + own_size(config, kTurned); }
FieldValue latent_value(const ModelConfig& config) { return own_size(config, kKvRank); }

std::string is_that(const FieldValue& value, const FieldValue& expected) {
  return value == expected ? "" : value_text(expected);
}
std::string is_one(const ModelConfig& /*config*/, const FieldValue& value) { return is_that(value, std::int64_t{1}); }
std::string is_whole_key(const ModelConfig& config, const FieldValue& value) {
  return config.own.contains(kPlainSize) ? is_that(value, whole_key(config)) : "";
}
std::string is_latent_key(const ModelConfig& config, const FieldValue& value) {
  return is_that(value, latent_key(config));
}
std::string is_latent_value(const ModelConfig& config, const FieldValue& value) {
  return is_that(value, latent_value(config));
}
std::string is_softmax_number(const ModelConfig& /*config*/, const FieldValue& value) {
  return is_that(value, kGgufSoftmax).empty() ? "" : "1, the softmax";
}
std::string is_method_of_v2(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& method = std::get<Text>(value);
  return method == "greedy" || method == kGroupLimited ? "" : cat("\"greedy\" or \"", kGroupLimited, "\"");
}
std::string is_method_of_v3(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<Text>(value) == "noaux_tc" ? "" : "\"noaux_tc\"";
}
std::string is_softmax(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<Text>(value) == "softmax" ? "" : "\"softmax\"";
}
std::string is_sigmoid(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<Text>(value) == "sigmoid" ? "" : "\"sigmoid\"";
}

}  // namespace

bool is_gguf_of_v3(const checkpoint::Gguf& gguf) {
  return gguf.integer_or(cat(kDeepseekGguf, ".", kGgufGating), kGgufSoftmax).value() == kGgufSigmoid;
}
bool is_gguf_of_v2(const checkpoint::Gguf& gguf) { return !is_gguf_of_v3(gguf); }

FieldValue turned_size(const ModelConfig& config) { return config.own_field<std::int64_t>(kTurned); }

std::vector<Field> deepseek_fields(const DeepseekDefaults& defaults, std::vector<Field> more) {
  const FieldValue size = std::int64_t{0};
  const auto usual = [](std::int64_t value) { return required_in_gguf(FieldValue(value)); };
  const Field whole = {"", kGgufWholeKey, size, otherwise(whole_key), is_whole_key};
  std::vector<Field> all = {
      {kQRank, "attention.q_lora_rank", size, Default{FieldValue(std::int64_t{1536}), size, size, false}, is_count},
      {kKvRank, "attention.kv_lora_rank", size, usual(512), is_size},
      {kTurned, "rope.dimension_count", size, usual(64), is_even_size},
      whole,
      {kPlainSize, kImplied, size, Default{FieldValue(std::int64_t{128}), {}, plain_of_key, false}, is_size},
      whole,
      {kValue, "attention.value_length_mla", size, usual(128), is_size},
      {"qk_head_dim", kImplied, size, otherwise(size), is_count}};
  std::vector<Field> decoder = decoder_fields({.num_key_value_heads = otherwise(as_many_as_heads),
                                               .head_dim = otherwise(turned_size),
                                               .max_position_embeddings = defaults.max_position_embeddings,
                                               .bos_token_id = defaults.bos,
                                               .eos_token_ids = std::vector<std::int64_t>{defaults.eos}});
  std::erase_if(decoder, [](const Field& field) { return std::string_view(field.gguf) == kGgufValue; });
  all = with_fields(std::move(all), std::move(decoder));
  all = with_fields(std::move(all), routed_expert_fields(defaults.experts));
  all = with_fields(
      std::move(all),
      {{"num_key_value_heads", kImplied, &ModelConfig::num_key_value_heads, otherwise(as_many_as_heads), divides_heads},
       {"head_dim", kImplied, &ModelConfig::head_dim, otherwise(turned_size), is_even_size},
       {"", kGgufHeads, size, otherwise(FieldValue(std::int64_t{1})), is_one},
       {"", kGgufKey, size, otherwise(latent_key), is_latent_key},
       {"", kGgufValue, size, otherwise(latent_value), is_latent_value},
       {"attention_bias", "", &ModelConfig::attention_bias, otherwise(FieldValue(false))}});
  return with_fields(std::move(all), std::move(more));
}

void use_softmax_gating(std::vector<Field>& fields) {
  std::erase_if(fields, [](const Field& field) { return std::string_view(field.gguf) == kGgufGating; });
  fields.push_back(
      {"", kGgufGating, FieldValue(std::int64_t{0}), otherwise(FieldValue(kGgufSoftmax)), is_softmax_number});
}

// llama.cpp judges a group of experts by its best two, as V3 does: a GGUF of V2 has one group.
std::vector<Field> deepseek_v2_fields() {
  const FieldValue size = std::int64_t{0};
  std::vector<Field> all =
      deepseek_fields({{64, 6, 1407, 0}, 2048, 1, 2},
                      {{kMethod, "", FieldValue(Text()), otherwise(FieldValue(Text("greedy"))), is_method_of_v2},
                       {kScores, "", FieldValue(Text()), otherwise(FieldValue(Text("softmax"))), is_softmax},
                       {"norm_topk_prob", "", FieldValue(false), otherwise(FieldValue(false)), is_false}});
  use_softmax_gating(all);
  for (const char* key : {"expert_group_count", "expert_group_used_count"}) {
    const auto groups =
        std::find_if(all.begin(), all.end(), [&](const Field& field) { return std::string_view(field.gguf) == key; });
    groups->gguf = "";
    all.push_back({"", key, size, otherwise(FieldValue(std::int64_t{1})), is_one});
  }
  return all;
}

std::vector<Field> deepseek_v3_choice() {
  return {{kMethod, "", FieldValue(Text()), otherwise(FieldValue(Text("noaux_tc"))), is_method_of_v3},
          {kScores, "", FieldValue(Text()), otherwise(FieldValue(Text("sigmoid"))), is_sigmoid},
          {"rope_interleave", "", FieldValue(true), otherwise(FieldValue(true)), is_true}};
}

}  // namespace tern::models
