#include "models/llama4.h"

#include <algorithm>

#include "base/strings.h"
#include "models/experts.h"
#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;
using Layers = std::vector<std::int64_t>;

constexpr const char* kWidth = "intermediate_size";  // of each expert
constexpr const char* kExperts = "num_local_experts";
constexpr const char* kTopK = "num_experts_per_tok";
constexpr const char* kStep = "interleave_moe_layer_step";
constexpr const char* kSparse = "moe_layers";
constexpr const char* kNorms = "use_qk_norm";
constexpr const char* kTypes = "layer_types";
constexpr const char* kChunk = "attention_chunk_size";
constexpr const char* kGrows = "attn_temperature_tuning";
constexpr const char* kGrowth = "attn_scale";
constexpr const char* kPeriod = "floor_scale";
constexpr const char* kChunkedType = "chunked_attention";
constexpr const char* kQueryRope = "queries";  // that nothing turns
constexpr std::int64_t kPlainExperts = 128;    // llama.cpp takes a model of so many for one without norms

FieldValue each_step(const ModelConfig& config) {
  const auto step = config.own_field<std::int64_t>(kStep);
  Layers layers;
  for (std::int64_t layer = step - 1; layer < config.num_hidden_layers; layer += step) layers.push_back(layer);
  return layers;
}

FieldValue by_turning(const ModelConfig& config) {
  const auto& turns = config.own_field<Layers>(kTurnedLayers);
  Texts types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.emplace_back(turns[static_cast<std::size_t>(layer)] != 0 ? kChunkedType : kFullType);
  return types;
}

std::string are_types(const ModelConfig& config, const FieldValue& value) {
  return are_words_of_layers(config, value, kChunkedType, kFullType)
             ? ""
             : cat(kChunkedType, " or ", kFullType, " for each of ", config.num_hidden_layers, " layers");
}

FieldValue unless_many_experts(const ModelConfig& config) {
  return config.own_field<std::int64_t>(kExperts) != kPlainExperts;
}

// The published files leave the list empty, and the first of them say a number for yes.
void settle(const io::JsonField& json, io::Json& own) {
  const auto layers = json.find(kTurnedLayers);
  if (layers && layers->json().is_array() && layers->json().empty()) own.erase(kTurnedLayers);
  const auto grows = json.find(kGrows);
  if (grows && grows->json().is_number()) own[kGrows] = io::Json(grows->number() != 0.0);
}

std::vector<Field> fields() {
  using C = ModelConfig;
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const auto usual = [](FieldValue value) { return otherwise(std::move(value)); };
  std::vector<Field> own = {
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
      {"rope_theta", "rope.freq_base", &C::rope_theta,
       Default{FieldValue(500000.0), FieldValue(500000.0), FieldValue(10000.0), false}, is_positive},
      {kWidth, "expert_feed_forward_length", count(0), required_in_gguf(count(8192)), is_size},
      {"intermediate_size_mlp", "feed_forward_length", &C::intermediate_size, required_in_gguf(count(16384)), is_size},
      {kExperts, "expert_count", count(0), required_in_gguf(count(16)), is_experts, {}, "num_experts"},
      {kTopK, "expert_used_count", count(0), required_in_gguf(count(1)), is_top_k},
      {kStep, kStep, count(0), required_in_gguf(count(1)), is_size},
      {kSparse, "", FieldValue(Layers()), otherwise(each_step), are_layers},
      {kNorms, "", FieldValue(true), Default{FieldValue(true), {}, unless_many_experts, false}},
  };
  for (Field& field : turned_layer_fields()) own.push_back(std::move(field));
  own.insert(own.end(), {{kTypes, "", FieldValue(Texts()), otherwise(by_turning), are_types},
                         {kChunk, "", count(0), Default{count(8192), {}, count(8192), false}, is_size},
                         {kGrows, "", FieldValue(true), usual(true)},
                         {kPeriod, "", count(0), usual(count(8192)), is_size},
                         {kGrowth, "", FieldValue(0.0), usual(0.1), is_epsilon},
                         {"for_llm_compressor", kImplied, FieldValue(false), usual(false)}});
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(count(8), as_many_as_heads),
                                     .head_dim = otherwise(FieldValue(count(128)), hidden_over_heads),
                                     .max_position_embeddings = 131072,
                                     .bos_token_id = count(1),
                                     .eos_token_ids = Layers{2}}),
                     std::move(own));
}

bool has_experts(const ModelConfig& config, std::int64_t layer) {
  const auto& sparse = config.own_field<Layers>(kSparse);
  return std::find(sparse.begin(), sparse.end(), layer) != sparse.end();
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  DecoderParameters options{.mlp = "feed_forward",
                            .experts = {.experts = config.own_field<std::int64_t>(kExperts),
                                        .inner = config.own_field<std::int64_t>(kWidth),
                                        .shared_inner = config.own_field<std::int64_t>(kWidth),
                                        .module = "feed_forward",
                                        .router = "router",
                                        .block = "feed_forward",
                                        .fused = {.gate_up = ".experts.gate_up_proj",
                                                  .down = ".experts.down_proj",
                                                  .router = ".router.weight",
                                                  .is_transposed = true}}};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    options.sparse_layers.push_back(has_experts(config, layer));
  return decoder_parameters(config, options);
}

std::vector<RopeTable> rope_tables(const ModelConfig& config) {
  RopeTable plain{.kind = kQueryRope,
                  .frequencies = std::vector<double>(static_cast<std::size_t>(config.head_dim / 2), 0.0),
                  .growth = config.own_field<double>(kGrowth),
                  .period = static_cast<double>(config.own_field<std::int64_t>(kPeriod)),
                  .ahead = 1.0};
  return {scaled_rope_table(config), std::move(plain)};
}

// Of each layer: keys of its chunk alone, or all of them.
Layers chunks(const ModelConfig& config) {
  Layers chunks;
  for (const std::string& type : config.own_field<Texts>(kTypes))
    chunks.push_back(type == kChunkedType ? config.own_field<std::int64_t>(kChunk) : 0);
  return chunks;
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .rope_interleaved = true,
                                .eps = eps};
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>(kExperts),
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .sigmoid = true,
                          .router = "router",
                          .shared = "shared_expert",
                          .weights_inputs = true};
  const Layers chunk = chunks(config);
  const auto& turned = config.own_field<Layers>(kTurnedLayers);
  const nn::QkNorm norms = config.own_field<bool>(kNorms) ? nn::QkNorm::turned : nn::QkNorm::none;
  const char* growing = config.own_field<bool>(kGrows) ? kQueryRope : "";
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    const auto at = static_cast<std::size_t>(index);
    const bool turns = turned[at] != 0;
    attention.chunk = chunk[at];
    attention.rope = turns ? nn::kDefaultRope : "";
    attention.query_rope = turns ? "" : growing;
    attention.qk_norm = turns ? norms : nn::QkNorm::none;
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    const nn::Value h = nn::norm(context, module + ".post_attention_layernorm", eps, x);
    const std::string block = module + ".feed_forward";
    x.add(has_experts(config, index) ? nn::moe(context, block, moe, h) : nn::gated_mlp(context, block, h));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

// A chunk ends where a window of its size does, or before.
std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) { return attention_caches(config, chunks(config)); }

}  // namespace

Architecture llama4_architecture() {
  return {.name = "Llama4ForCausalLM",
          .model_type = "llama4_text",
          .gguf = "llama4",
          .fields = fields(),
          .gguf_rope_factors = true,
          .settle_json = settle,
          .parameters = parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
