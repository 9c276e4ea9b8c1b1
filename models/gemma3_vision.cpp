#include "models/gemma3_vision.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "io/json.h"
#include "models/gemma_fields.h"
#include "models/mmproj.h"
#include "models/square_vision.h"
#include "models/vision_grid.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "nn/vision.h"
#include "ops/build.h"
#include "ops/scatter_add_rows.h"

namespace tern::models {
namespace {

constexpr const char* kTower = "vision_tower.";
constexpr const char* kProjection = "multi_modal_projector.mm_input_projection";

std::int64_t root(std::int64_t square) { return std::llround(std::sqrt(static_cast<double>(square))); }
std::int64_t tokens_side(const ModelConfig& fields) { return root(square_own(fields, "mm_tokens_per_image")); }

std::string is_square(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  const auto number = std::get<std::int64_t>(value);
  return root(number) * root(number) == number ? "" : "the square of a whole number";
}

std::string cuts_image(const ModelConfig& config, const FieldValue& value) {
  const auto patch = std::get<std::int64_t>(value);
  const std::int64_t image = square_own(config, "image_size");
  const std::int64_t side = tokens_side(config);
  const bool fits = patch > 0 && patch <= 256 && image % patch == 0 && image / patch % side == 0;
  return fits ? "" : cat("a size that cuts ", image, " pixels into blocks of patches for ", side, " tokens a side");
}

std::vector<Field> fields() {
  using C = ModelConfig;
  const FieldValue number = std::int64_t{0};
  return {{"hidden_size", "", &C::hidden_size, otherwise(FieldValue(std::int64_t{768})), is_size},
          {"intermediate_size", "", &C::intermediate_size, otherwise(FieldValue(std::int64_t{3072})), is_size},
          {"num_hidden_layers", "", &C::num_hidden_layers, otherwise(FieldValue(std::int64_t{12})), is_layers},
          {"num_attention_heads", "", &C::num_attention_heads, otherwise(FieldValue(std::int64_t{12})), divides_width},
          {"num_channels", "", number, otherwise(FieldValue(std::int64_t{3})), is_size},
          {"image_size", "", number, otherwise(FieldValue(std::int64_t{224})), is_size},
          {"patch_size", "", number, otherwise(FieldValue(std::int64_t{16})), cuts_image},
          {"layer_norm_eps", "", &C::rms_norm_eps, otherwise(FieldValue(1e-6)), is_epsilon},
          gelu_tanh_fields().front()};
}

std::vector<Field> fields_of_whole() {
  const FieldValue number = std::int64_t{0};
  return {{"mm_tokens_per_image", "", number, otherwise(FieldValue(std::int64_t{256})), is_square}};
}

std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const ModelConfig& fields = config.fields;
  const std::int64_t width = fields.hidden_size;
  ParameterList list;
  add_square_patch_embedding(list, cat(kTower, "embeddings.patch_embedding"), fields, true);
  list.embedding(cat(kTower, "embeddings.position_embedding"), "v.position_embd",
                 square_side(fields) * square_side(fields), width);
  for (std::int64_t layer = 0; layer < fields.num_hidden_layers; ++layer) {
    const std::string module = cat(kTower, "encoder.layers.", layer), gguf = cat("v.blk.", layer);
    add_layer_norm(list, module + ".layer_norm1", width, gguf + ".ln1");
    for (const char* part : {"q", "k", "v"})
      add_linear(list, cat(module, ".self_attn.", part, "_proj"), width, width, true, cat(gguf, ".attn_", part));
    add_linear(list, module + ".self_attn.out_proj", width, width, true, gguf + ".attn_out");
    add_layer_norm(list, module + ".layer_norm2", width, gguf + ".ln2");
    add_linear(list, module + ".mlp.fc1", fields.intermediate_size, width, true, gguf + ".ffn_up");
    add_linear(list, module + ".mlp.fc2", width, fields.intermediate_size, true, gguf + ".ffn_down");
  }
  add_layer_norm(list, cat(kTower, "post_layernorm"), width, "v.post_ln");
  list.norm("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", width, -1.0F);
  ParameterSpec& projection =
      list.tensor(cat(kProjection, ".weight"), {config.hidden_size, width}, "mm.input_projection.weight");
  projection.gguf.is_transposed = true;
  projection.hugging_face = {.tensors = {cat(kProjection, "_weight")}, .is_transposed = true};
  return list.take();
}

VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const std::int64_t side = square_side(config.fields);
  require_square(grids, side);
  const std::int64_t tokens = tokens_side(config.fields);
  VisionColumns columns;
  for (const PatchPlace& place : patch_places(grids[0], 1))
    columns.indices["blocks"].push_back(
        static_cast<std::int32_t>(place.row * tokens / side * tokens + place.column * tokens / side));
  columns.indices["cu_seqlens"] = {0, static_cast<std::int32_t>(side * side)};
  columns.features = tokens * tokens;
  columns.counts[kPatches] = side * side;
  columns.counts[kFeatures] = columns.features;
  columns.counts[kImageBounds] = 2;
  return columns;
}

// The mean of each block of patches.
nn::Value averaged(nn::Context& context, const VisionConfig& config, nn::Value x, nn::Value blocks) {
  const std::int64_t tokens = tokens_side(config.fields) * tokens_side(config.fields);
  ops::ScatterAddRowsOptions sums;
  sums.needs = context.options().needs;
  const nn::Value sum = ops::scatter_add_rows(context.graph(), x, blocks, tokens, sums);
  return nn::scaled(context, sum, static_cast<double>(tokens) / static_cast<double>(square_patches(config)));
}

// A learned position for each patch of an image, of which there are always as many.
nn::Value positions(nn::Context& context, nn::Value patches) {
  const nn::Value table = context.weight(cat(kTower, "embeddings.position_embedding.weight"));
  const TensorDesc& desc = context.graph().desc(table);
  return context.graph().view(table, ops::rows_like(desc, context.graph().desc(patches)), 0);
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const ModelConfig& fields = config.fields;
  const double eps = fields.rms_norm_eps;
  const nn::VisionAttentionConfig attention{.heads = fields.num_attention_heads,
                                            .head_dim = fields.hidden_size / fields.num_attention_heads,
                                            .output = "out_proj"};
  const nn::VisionSequences whole{.cu_seqlens = index_column(context, "cu_seqlens", 2, kImageBounds),
                                  .max_seqlen = patches};
  const nn::Value embedded = patch_embedding(context, cat(kTower, "embeddings.patch_embedding"), patches);
  nn::Residual x(nn::weighted_sum(context, 1.0, embedded, 1.0, positions(context, embedded)));
  for (std::int64_t layer = 0; layer < fields.num_hidden_layers; ++layer) {
    const std::string module = cat(kTower, "encoder.layers.", layer);
    x.add(nn::vision_attention(context, module + ".self_attn", attention, whole,
                               nn::layer_norm(context, module + ".layer_norm1", eps, x)));
    x.add(nn::vision_mlp(context, module + ".mlp", {}, nn::layer_norm(context, module + ".layer_norm2", eps, x)));
  }
  const nn::Value seen = nn::layer_norm(context, cat(kTower, "post_layernorm"), eps, x);
  const nn::Value pooled = averaged(context, config, seen, index_column(context, "blocks", patches, kPatches));
  const nn::Value normed = nn::branch_norm(context, "multi_modal_projector.mm_soft_emb_norm", eps, pooled, 1.0F);
  return {nn::linear(context, kProjection, normed), {}};
}

// Its scale_factor is by how much an image has fewer tokens than patches, on each side.
io::Json from_mmproj(MmprojKeys& keys) {
  const std::int64_t image = keys.integer("image_size"), patch = keys.integer("patch_size");
  const std::int64_t scale = std::max<std::int64_t>(keys.integer_or("projector.scale_factor", 4), 1);
  const std::int64_t side = std::clamp<std::int64_t>(image / std::max<std::int64_t>(patch, 1) / scale, 0, 65536);
  io::Json whole;
  whole["mm_tokens_per_image"] = side * side;
  whole["vision_config"] = {{"hidden_size", keys.integer("embedding_length")},
                            {"intermediate_size", keys.mlp_width()},
                            {"num_hidden_layers", keys.integer("block_count")},
                            {"num_attention_heads", keys.integer("attention.head_count")},
                            {"image_size", image},
                            {"patch_size", patch},
                            {"layer_norm_eps", keys.number_or("attention.layer_norm_epsilon", 1e-6)}};
  return whole;
}

}  // namespace

VisionTower gemma3_vision() {
  return {.whole = "Gemma3ForConditionalGeneration",
          .image_token = "image_token_index",
          .fields = fields(),
          .fields_of_whole = fields_of_whole(),
          .other_keys = {"vision_use_head"},  // of what is not read
          .unread = {"vision_tower.head."},
          .num_deepstack = no_deepstack,
          .mrope_section = {},
          .has_one_size = true,
          .sees_itself = true,
          .parameters = parameters,
          .patch_dim = square_patch_dim,
          .patch_unit = square_patches,
          .columns = columns,
          .features = features,
          .projector = "gemma3",
          .languages = {"gemma3"},
          .from_mmproj = from_mmproj};
}

}  // namespace tern::models
