#include "models/internvl_vision.h"

#include "base/strings.h"
#include "models/internvl_fields.h"
#include "models/vision_grid.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "nn/vision.h"
#include "ops/gather_rows.h"

namespace tern::models {
namespace {

constexpr const char* kTower = "vision_tower.";
constexpr const char* kProjector = "multi_modal_projector.";
constexpr double kProjectorEps = 1e-5;

void add_norm(ParameterList& list, const std::string& module, const ModelConfig& fields, const std::string& gguf) {
  if (is_internvl_centred(fields)) return add_layer_norm(list, module, fields.hidden_size, gguf);
  list.norm(module, gguf, fields.hidden_size);
}

void add_layer(ParameterList& list, std::int64_t layer, const ModelConfig& fields) {
  const std::int64_t width = fields.hidden_size;
  const std::string module = cat(kTower, "encoder.layer.", layer), gguf = cat("v.blk.", layer);
  add_norm(list, module + ".layernorm_before", fields, gguf + ".ln1");
  for (const char* part : {"q", "k", "v"}) {
    add_linear(list, cat(module, ".attention.", part, "_proj"), width, width, fields.attention_bias,
               cat(gguf, ".attn_", part));
  }
  add_linear(list, module + ".attention.projection_layer", width, width, true, gguf + ".attn_out");
  if (fields.own_field<bool>("use_qk_norm")) {
    list.norm(module + ".attention.q_norm", gguf + ".attn_q_norm", width);
    list.norm(module + ".attention.k_norm", gguf + ".attn_k_norm", width);
  }
  add_norm(list, module + ".layernorm_after", fields, gguf + ".ln2");
  add_linear(list, module + ".mlp.fc1", fields.intermediate_size, width, true, gguf + ".ffn_up");
  add_linear(list, module + ".mlp.fc2", width, fields.intermediate_size, true, gguf + ".ffn_down");
  list.tensor(module + ".lambda_1", {width}, gguf + ".ls1.weight");
  list.tensor(module + ".lambda_2", {width}, gguf + ".ls2.weight");
}

std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const ModelConfig& fields = config.fields;
  const std::int64_t width = fields.hidden_size;
  const std::int64_t positions = internvl_side(fields) * internvl_side(fields) + 1;
  ParameterList list;
  const std::int64_t patch = internvl_pixels(fields, "patch_size");
  add_patch_embedding(list, cat(kTower, "embeddings.patch_embeddings.projection"), width,
                      {internvl_own(fields, "num_channels"), patch, patch}, true);
  list.tensor(cat(kTower, "embeddings.cls_token"), {1, width}, "v.class_embd").hugging_face.shape = {1, 1, width};
  list.tensor(cat(kTower, "embeddings.position_embeddings"), {positions, width}, "v.position_embd.weight")
      .hugging_face.shape = {1, positions, width};
  for (std::int64_t layer = 0; layer < fields.num_hidden_layers; ++layer) add_layer(list, layer, fields);
  if (!fields.own_field<bool>("use_mean_pooling")) add_layer_norm(list, cat(kTower, "layernorm"), width, "v.post_ln");
  const std::int64_t merged = internvl_merge(fields) * internvl_merge(fields) * width;
  add_layer_norm(list, cat(kProjector, "layer_norm"), merged, "mm.model.mlp.0");
  add_linear(list, cat(kProjector, "linear_1"), config.hidden_size, merged, true, "mm.model.mlp.1");
  add_linear(list, cat(kProjector, "linear_2"), config.hidden_size, config.hidden_size, true, "mm.model.mlp.3");
  return list.take();
}

std::int64_t patches_of_tile(const VisionConfig& config) {
  return internvl_side(config.fields) * internvl_side(config.fields);
}

std::int64_t patch_dim(const VisionConfig& config) {
  const std::int64_t patch = internvl_pixels(config.fields, "patch_size");
  return internvl_own(config.fields, "num_channels") * patch * patch;
}

// Each tile is a sequence of its own: the class's token, then its patches.
VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const std::int64_t side = internvl_side(config.fields);
  const std::int64_t merge = internvl_merge(config.fields);
  const std::int64_t rows = side * side + 1;
  const std::vector<PatchPlace> blocks = patch_places({1, side, side}, merge);
  VisionColumns columns;
  columns.indices["cu_seqlens"].push_back(0);
  for (std::size_t tile = 0; tile < grids.size(); ++tile) {
    const nn::PatchGrid& grid = grids[tile];
    if (grid.t != 1 || grid.h != side || grid.w != side) {
      throw Failure(data_error("image", cat("tiles of 1 x ", side, " x ", side, " patches"),
                               cat(grid.t, " x ", grid.h, " x ", grid.w),
                               "make its patches as the model's own processor does"));
    }
    const std::int64_t begin = static_cast<std::int64_t>(tile) * rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool is_class = row == 0;
      columns.indices["patch"].push_back(
          is_class ? -1 : static_cast<std::int32_t>(static_cast<std::int64_t>(tile) * (rows - 1) + row - 1));
      columns.indices["class"].push_back(is_class ? 0 : -1);
      columns.indices["position"].push_back(static_cast<std::int32_t>(row));
    }
    for (const PatchPlace& place : blocks)
      columns.indices["blocks"].push_back(static_cast<std::int32_t>(begin + 1 + place.row * side + place.column));
    columns.indices["cu_seqlens"].push_back(static_cast<std::int32_t>(begin + rows));
  }
  const auto tiles = static_cast<std::int64_t>(grids.size());
  columns.features = tiles * (rows - 1) / (merge * merge);
  columns.counts[kPatches] = tiles * (rows - 1);
  columns.counts[kPatchRows] = tiles * rows;
  columns.counts[kFeatures] = columns.features;
  columns.counts[kImageBounds] = tiles + 1;
  return columns;
}

nn::Value embeddings(nn::Context& context, std::int64_t patches, std::int64_t rows) {
  graph::Graph& graph = context.graph();
  const auto gathered = [&](nn::Value from, const char* column) {
    return ops::gather_rows(graph, from, index_column(context, column, rows, kPatchRows), context.options().needs);
  };
  const nn::Value embedded = patch_embedding(context, cat(kTower, "embeddings.patch_embeddings.projection"), patches);
  const nn::Value classed = nn::weighted_sum(context, 1.0, gathered(embedded, "patch"), 1.0,
                                             gathered(context.weight(cat(kTower, "embeddings.cls_token")), "class"));
  const nn::Value positions = gathered(context.weight(cat(kTower, "embeddings.position_embeddings")), "position");
  return nn::weighted_sum(context, 1.0, classed, 1.0, positions);
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const ModelConfig& fields = config.fields;
  const double eps = fields.rms_norm_eps;
  const std::int64_t tiles = patches / patches_of_tile(config);
  const nn::VisionAttentionConfig attention{.heads = fields.num_attention_heads,
                                            .head_dim = fields.hidden_size / fields.num_attention_heads,
                                            .output = "projection_layer",
                                            .qk_norm = fields.own_field<bool>("use_qk_norm")};
  const nn::VisionSequences sequences{.cu_seqlens = index_column(context, "cu_seqlens", tiles + 1, kImageBounds),
                                      .max_seqlen = patches_of_tile(config) + 1};
  nn::Residual x(embeddings(context, patches, patches + tiles));
  const auto norm = [&](const std::string& module) {
    return is_internvl_centred(fields) ? nn::layer_norm(context, module, eps, x) : nn::norm(context, module, eps, x);
  };
  for (std::int64_t layer = 0; layer < fields.num_hidden_layers; ++layer) {
    const std::string module = cat(kTower, "encoder.layer.", layer);
    const nn::Value attended =
        nn::vision_attention(context, module + ".attention", attention, sequences, norm(module + ".layernorm_before"));
    x.add(nn::layer_scale(context, module + ".lambda_1", attended));
    const nn::Value fed =
        nn::vision_mlp(context, module + ".mlp", {"fc1", "fc2", TERN_ACT_GELU_ERF}, norm(module + ".layernorm_after"));
    x.add(nn::layer_scale(context, module + ".lambda_2", fed));
  }
  const nn::Value seen = fields.own_field<bool>("use_mean_pooling")
                             ? nn::stream(context, x)
                             : nn::layer_norm(context, cat(kTower, "layernorm"), eps, x);
  // Blocks side by side: the token of the class is not among them.
  const std::int64_t unit = internvl_merge(fields) * internvl_merge(fields);
  const nn::Value blocks = ops::gather_rows(context.graph(), seen, index_column(context, "blocks", patches, kPatches),
                                            context.options().needs);
  const nn::Value normed = nn::branch_layer_norm(context, cat(kProjector, "layer_norm"), kProjectorEps,
                                                 nn::merged_rows(context, blocks, unit, kFeatures));
  return {nn::vision_mlp(context, "multi_modal_projector", {"linear_1", "linear_2", TERN_ACT_GELU_ERF}, normed), {}};
}

}  // namespace

VisionTower internvl_vision() {
  return {.whole = "InternVLForConditionalGeneration",
          .image_token = "image_token_id",
          .fields = internvl_fields(),
          .fields_of_whole = internvl_fields_of_whole(),
          .other_keys = {"hidden_dropout_prob", "projection_dropout", "initializer_factor",
                         "layer_scale_init_value"},  // of training, and of how it begins
          .unread = {},
          .num_deepstack = no_deepstack,
          .mrope_section = {},
          .grids_apart = true,
          .parameters = parameters,
          .patch_dim = patch_dim,
          .patch_unit = patches_of_tile,
          .columns = columns,
          .features = features,
          .projector = "internvl",
          .from_mmproj = internvl_from_mmproj};
}

}  // namespace tern::models
