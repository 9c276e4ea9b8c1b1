#include "models/qwen_vision.h"

#include <numeric>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "models/mmproj.h"

namespace tern::models {
namespace {

constexpr double kTheta = 10000.0;  // of the positions of patches; no published tower has another

std::string is_text_width(const ModelConfig& config, const FieldValue& value) {
  const auto width = config.own_field<std::int64_t>("text_hidden_size");
  return std::get<std::int64_t>(value) == width ? "" : cat(width, ", as the language model has");
}

// Heads must be whole, and positions turn quarters of them.
std::string are_heads(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  const std::int64_t heads = std::get<std::int64_t>(value);
  const bool fits = config.hidden_size % heads == 0 && config.hidden_size / heads % 4 == 0;
  return fits ? "" : cat("a divisor of ", config.hidden_size, " features that gives each head a multiple of four");
}

void join_qkv(ParameterSpec& spec, const std::string& gguf, const char* ending, std::int64_t width) {
  spec.gguf.tensors = {cat(gguf, ".attn_q", ending), cat(gguf, ".attn_k", ending), cat(gguf, ".attn_v", ending)};
  spec.gguf.joined = {width, width, width};
}

std::string is_small(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto size = std::get<std::int64_t>(value);
  return size > 0 && size <= 256 ? "" : "a size from 1 to 256";
}

}  // namespace

std::vector<Field> qwen_vision_fields(const char* width, const char* out) {
  using C = ModelConfig;
  const FieldValue number = std::int64_t{0};
  const FieldValue channels = std::int64_t{3};
  return {{"depth", "", &C::num_hidden_layers, required(), is_layers},
          {width, "", &C::hidden_size, required(), is_size},
          {"num_heads", "", &C::num_attention_heads, required(), are_heads},
          {.json = "in_channels",
           .gguf = "",
           .member = number,
           .otherwise = otherwise(channels),
           .law = is_small,
           .also = "in_chans"},
          {"patch_size", "", number, required(), is_small},
          {"spatial_merge_size", "", number, otherwise(FieldValue(std::int64_t{2})), is_small},
          {"temporal_patch_size", "", number, otherwise(FieldValue(std::int64_t{2})), is_small},
          {out, "", number, required(), is_text_width}};
}

std::int64_t qwen_merge(const VisionConfig& config) {
  return config.fields.own_field<std::int64_t>("spatial_merge_size");
}
std::int64_t qwen_merge_unit(const VisionConfig& config) { return qwen_merge(config) * qwen_merge(config); }

std::int64_t qwen_patch_dim(const VisionConfig& config) {
  const auto own = [&](const char* key) { return config.fields.own_field<std::int64_t>(key); };
  return own("in_channels") * own("temporal_patch_size") * own("patch_size") * own("patch_size");
}

nn::VisionAttentionConfig qwen_vision_attention(const VisionConfig& config) {
  const ModelConfig& fields = config.fields;
  return {
      .heads = fields.num_attention_heads, .head_dim = fields.hidden_size / fields.num_attention_heads, .fused = "qkv"};
}

void add_qwen_patch_embedding(ParameterList& list, const VisionConfig& config, bool bias) {
  const auto own = [&](const char* key) { return config.fields.own_field<std::int64_t>(key); };
  add_patch_embedding(list, "visual.patch_embed.proj", config.fields.hidden_size,
                      {own("in_channels"), own("temporal_patch_size"), own("patch_size"), own("patch_size")}, bias);
}

QwenBlock qwen_block_names(std::int64_t layer, bool gguf_fuses) {
  return {cat("visual.blocks.", layer), cat("v.blk.", layer), gguf_fuses};
}

void add_qwen_attention(ParameterList& list, const QwenBlock& block, const VisionConfig& config) {
  const std::int64_t width = config.fields.hidden_size;
  const std::string qkv = block.module + ".attn.qkv";
  ParameterSpec& weight = list.linear(qkv, block.gguf + ".attn_qkv", {3 * width, width});
  if (!block.gguf_fuses) join_qkv(weight, block.gguf, ".weight", width);
  ParameterSpec& bias = list.tensor(qkv + ".bias", {3 * width}, block.gguf + ".attn_qkv.bias");
  bias.is_bias = true;
  if (!block.gguf_fuses) join_qkv(bias, block.gguf, ".bias", width);
  add_linear(list, block.module + ".attn.proj", width, width, true, block.gguf + ".attn_out");
}

void add_qwen_block(ParameterList& list, const QwenBlock& block, const VisionConfig& config, std::int64_t inner,
                    const nn::VisionMlpConfig& mlp) {
  const std::int64_t width = config.fields.hidden_size;
  add_layer_norm(list, block.module + ".norm1", width, block.gguf + ".ln1");
  add_qwen_attention(list, block, config);
  add_layer_norm(list, block.module + ".norm2", width, block.gguf + ".ln2");
  add_linear(list, cat(block.module, ".mlp.", mlp.first), inner, width, true, block.gguf + ".ffn_up");
  add_linear(list, cat(block.module, ".mlp.", mlp.second), width, inner, true, block.gguf + ".ffn_down");
}

void qwen_block(nn::Context& context, const std::string& module, const VisionConfig& config,
                const nn::VisionSequences& sequences, const nn::VisionMlpConfig& mlp, nn::Residual& x) {
  x.add(nn::vision_attention(context, module + ".attn", qwen_vision_attention(config), sequences,
                             nn::layer_norm(context, module + ".norm1", kQwenVisionEps, x)));
  x.add(nn::vision_mlp(context, module + ".mlp", mlp, nn::layer_norm(context, module + ".norm2", kQwenVisionEps, x)));
}

VisionColumns qwen_vision_columns(const VisionConfig& config, const nn::PatchGrid& grid,
                                  const std::vector<PatchPlace>& places) {
  VisionColumns columns;
  AxialRope rope = axial_rope(places, qwen_vision_attention(config).head_dim, kTheta);
  columns.numbers["cos"] = std::move(rope.cos);
  columns.numbers["sin"] = std::move(rope.sin);
  auto& rows = columns.indices["rows"];
  rows.resize(places.size());
  std::iota(rows.begin(), rows.end(), 0);
  columns.indices["cu_seqlens"] = {0, static_cast<std::int32_t>(grid.h * grid.w)};
  columns.features = static_cast<std::int64_t>(places.size()) / qwen_merge_unit(config);
  columns.counts[kPatches] = static_cast<std::int64_t>(places.size());
  columns.counts[kFeatures] = columns.features;
  columns.counts[kImageBounds] = 2;
  return columns;
}

nn::VisionSequences qwen_sequences(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const std::int64_t half = qwen_vision_attention(config).head_dim / 2;
  return {.cu_seqlens = index_column(context, "cu_seqlens", 2, kImageBounds),
          .max_seqlen = patches,
          .rows = index_column(context, "rows", patches, kPatches),
          .cos = number_column(context, "cos", patches, half),
          .sin = number_column(context, "sin", patches, half)};
}

io::Json qwen_from_mmproj(MmprojKeys& keys, const char* width, const char* out) {
  (void)keys.number_or("attention.layer_norm_epsilon", kQwenVisionEps);  // the language model's: all towers have 1e-6
  io::Json whole;
  whole["vision_config"] = {
      {"depth", keys.integer("block_count")},     {"num_heads", keys.integer("attention.head_count")},
      {"patch_size", keys.integer("patch_size")}, {"spatial_merge_size", keys.integer_or("spatial_merge_size", 2)},
      {width, keys.integer("embedding_length")},  {out, keys.integer("projection_dim")}};
  return whole;
}

VisionTower qwen_tower(std::string whole, std::string projector, std::string language) {
  VisionTower made;
  made.whole = std::move(whole);
  made.projector = std::move(projector);
  made.languages = {std::move(language)};
  made.image_token = "image_token_id";
  made.num_deepstack = no_deepstack;
  made.mrope_section = {16, 24, 24};
  made.patch_dim = qwen_patch_dim;
  made.patch_unit = qwen_merge_unit;
  return made;
}

}  // namespace tern::models
