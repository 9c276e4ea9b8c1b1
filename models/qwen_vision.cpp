#include "models/qwen_vision.h"

#include <numeric>
#include <utility>

#include "base/strings.h"

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

void add_qwen_attention(ParameterList& list, const std::string& module, const VisionConfig& config) {
  const std::int64_t width = config.fields.hidden_size;
  add_linear(list, module + ".attn.qkv", 3 * width, width);
  add_linear(list, module + ".attn.proj", width, width);
}

void add_qwen_block(ParameterList& list, const std::string& module, const VisionConfig& config, std::int64_t inner,
                    const nn::VisionMlpConfig& mlp) {
  const std::int64_t width = config.fields.hidden_size;
  add_layer_norm(list, module + ".norm1", width);
  add_qwen_attention(list, module, config);
  add_layer_norm(list, module + ".norm2", width);
  add_linear(list, cat(module, ".mlp.", mlp.first), inner, width);
  add_linear(list, cat(module, ".mlp.", mlp.second), width, inner);
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

VisionTower qwen_tower(std::string whole) {
  VisionTower made;
  made.whole = std::move(whole);
  made.image_token = "image_token_id";
  made.num_deepstack = no_deepstack;
  made.mrope_section = {16, 24, 24};
  made.patch_dim = qwen_patch_dim;
  made.patch_unit = qwen_merge_unit;
  return made;
}

}  // namespace tern::models
