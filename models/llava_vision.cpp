#include "models/llava_vision.h"

#include "base/strings.h"
#include "models/square_vision.h"
#include "models/vision_grid.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "nn/vision.h"
#include "ops/gather_rows.h"

namespace tern::models {
namespace {

constexpr const char* kTower = "vision_tower.";
constexpr const char* kQuickGelu = "quick_gelu";

// "default" leaves the token of the class out.
bool keeps_class(const VisionConfig& config) {
  return config.fields.own_field<std::string>("vision_feature_select_strategy") == "full";
}
// Of the layers those that a feature needs: -1 is the last one's output, 0 the first one's input.
std::int64_t layers_of(const ModelConfig& fields) {
  const std::int64_t layer = square_own(fields, "vision_feature_layer");
  return layer < 0 ? fields.num_hidden_layers + 1 + layer : layer;
}

std::string cuts_image(const ModelConfig& config, const FieldValue& value) {
  const auto patch = std::get<std::int64_t>(value);
  const std::int64_t image = square_own(config, "image_size");
  return patch > 0 && patch <= 256 && image % patch == 0 ? "" : cat("a divisor of ", image, " pixels, up to 256");
}

std::string is_a_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == kQuickGelu || name == "gelu" ? "" : "\"quick_gelu\" or \"gelu\"";
}

std::string is_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "gelu" ? "" : "\"gelu\"";
}

std::string selects(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == "default" || name == "full" ? "" : "\"default\" or \"full\"";
}

// Those of the whole are read first, when nothing is known of the tower's depth.
std::string is_depth(const ModelConfig& config, const FieldValue& value) {
  if (!is_layers(config, value).empty()) return is_layers(config, value);
  const auto depth = std::get<std::int64_t>(value);
  const std::int64_t layer = square_own(config, "vision_feature_layer");
  return layer <= depth && layer >= -depth - 1 ? "" : cat("enough layers for vision_feature_layer, ", layer);
}

std::vector<Field> fields() {
  using C = ModelConfig;
  const auto number = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue text = std::string();
  return {{"hidden_size", "", &C::hidden_size, otherwise(number(768)), is_size},
          {"intermediate_size", "", &C::intermediate_size, otherwise(number(3072)), is_size},
          {"num_hidden_layers", "", &C::num_hidden_layers, otherwise(number(12)), is_depth},
          {"num_attention_heads", "", &C::num_attention_heads, otherwise(number(12)), divides_width},
          {"num_channels", "", number(0), otherwise(number(3)), is_size},
          {"image_size", "", number(0), otherwise(number(224)), is_size},
          {"patch_size", "", number(0), otherwise(number(32)), cuts_image},
          {"layer_norm_eps", "", &C::rms_norm_eps, otherwise(FieldValue(1e-5)), is_epsilon},
          {"hidden_act", "", text, otherwise(FieldValue(std::string(kQuickGelu))), is_a_gelu}};
}

std::vector<Field> fields_of_whole() {
  const FieldValue text = std::string();
  return {{"vision_feature_layer", "", FieldValue(std::int64_t{0}), otherwise(FieldValue(std::int64_t{-2}))},
          {"vision_feature_select_strategy", "", text, otherwise(FieldValue(std::string("default"))), selects},
          {"projector_hidden_act", "", text, otherwise(FieldValue(std::string("gelu"))), is_gelu},
          {"multimodal_projector_bias", "", FieldValue(true), otherwise(FieldValue(true))}};
}

// The layers behind the features' are loaded with the others, as a file has them.
std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const ModelConfig& fields = config.fields;
  const std::int64_t width = fields.hidden_size;
  ParameterList list;
  add_square_patch_embedding(list, cat(kTower, "embeddings.patch_embedding"), fields, false);
  list.tensor(cat(kTower, "embeddings.class_embedding"), {1, width}, "").hugging_face.shape = {width};
  list.embedding(cat(kTower, "embeddings.position_embedding"), "", square_patches(config) + 1, width);
  add_layer_norm(list, cat(kTower, "pre_layrnorm"), width);
  for (std::int64_t layer = 0; layer < fields.num_hidden_layers; ++layer) {
    const std::string module = cat(kTower, "encoder.layers.", layer);
    add_layer_norm(list, module + ".layer_norm1", width);
    for (const char* part : {".self_attn.q_proj", ".self_attn.k_proj", ".self_attn.v_proj", ".self_attn.out_proj"})
      add_linear(list, module + part, width, width);
    add_layer_norm(list, module + ".layer_norm2", width);
    add_linear(list, module + ".mlp.fc1", fields.intermediate_size, width);
    add_linear(list, module + ".mlp.fc2", width, fields.intermediate_size);
  }
  const bool bias = fields.own_field<bool>("multimodal_projector_bias");
  add_linear(list, "multi_modal_projector.linear_1", config.hidden_size, width, bias);
  add_linear(list, "multi_modal_projector.linear_2", config.hidden_size, config.hidden_size, bias);
  return list.take();
}

// The token of the class, then the patches row by row.
VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const std::int64_t side = square_side(config.fields);
  require_square(grids, side);
  const auto rows = static_cast<std::int32_t>(side * side + 1);
  VisionColumns columns;
  for (std::int32_t row = 0; row < rows; ++row) {
    columns.indices["patch"].push_back(row - 1);
    columns.indices["class"].push_back(row == 0 ? 0 : -1);
    columns.indices["position"].push_back(row);
    if (row > 0 || keeps_class(config)) columns.indices["seen"].push_back(row);
  }
  columns.indices["cu_seqlens"] = {0, rows};
  columns.features = static_cast<std::int64_t>(columns.indices["seen"].size());
  columns.counts[kPatches] = rows - 1;
  columns.counts[kPatchRows] = rows;
  columns.counts[kFeatures] = columns.features;
  columns.counts[kImageBounds] = 2;
  return columns;
}

nn::Value gathered(nn::Context& context, nn::Value from, const char* column, std::int64_t count, VisionCount slot) {
  return ops::gather_rows(context.graph(), from, index_column(context, column, count, slot), context.options().needs);
}

nn::Value embeddings(nn::Context& context, std::int64_t patches) {
  const std::int64_t rows = patches + 1;
  const nn::Value embedded = patch_embedding(context, cat(kTower, "embeddings.patch_embedding"), patches);
  const nn::Value of_class = context.weight(cat(kTower, "embeddings.class_embedding"));
  const nn::Value classed = nn::weighted_sum(context, 1.0, gathered(context, embedded, "patch", rows, kPatchRows), 1.0,
                                             gathered(context, of_class, "class", rows, kPatchRows));
  const nn::Value table = context.weight(cat(kTower, "embeddings.position_embedding.weight"));
  return nn::weighted_sum(context, 1.0, classed, 1.0, gathered(context, table, "position", rows, kPatchRows));
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const ModelConfig& fields = config.fields;
  const double eps = fields.rms_norm_eps;
  const nn::VisionAttentionConfig attention{.heads = fields.num_attention_heads,
                                            .head_dim = fields.hidden_size / fields.num_attention_heads,
                                            .output = "out_proj"};
  const bool is_quick = fields.own_field<std::string>("hidden_act") == kQuickGelu;
  const nn::VisionMlpConfig mlp{"fc1", "fc2", is_quick ? TERN_ACT_QUICK_GELU : TERN_ACT_GELU_ERF};
  const nn::VisionSequences whole{.cu_seqlens = index_column(context, "cu_seqlens", 2, kImageBounds),
                                  .max_seqlen = patches + 1};
  nn::Residual x(nn::branch_layer_norm(context, cat(kTower, "pre_layrnorm"), eps, embeddings(context, patches)));
  for (std::int64_t layer = 0; layer < layers_of(fields); ++layer) {
    const std::string module = cat(kTower, "encoder.layers.", layer);
    x.add(nn::vision_attention(context, module + ".self_attn", attention, whole,
                               nn::layer_norm(context, module + ".layer_norm1", eps, x)));
    x.add(nn::vision_mlp(context, module + ".mlp", mlp, nn::layer_norm(context, module + ".layer_norm2", eps, x)));
  }
  const std::int64_t count = patches + (keeps_class(config) ? 1 : 0);
  const nn::Value seen = gathered(context, nn::stream(context, x), "seen", count, kFeatures);
  return {nn::vision_mlp(context, "multi_modal_projector", {"linear_1", "linear_2", TERN_ACT_GELU_ERF}, seen), {}};
}

}  // namespace

VisionTower llava_vision() {
  VisionTower made;
  made.whole = "LlavaForConditionalGeneration";
  made.type = "clip_vision_model";
  made.image_token = "image_token_index";
  made.fields = fields();
  made.fields_of_whole = fields_of_whole();
  // Of CLIP's other parts, and of training.
  made.other_keys = {"projection_dim", "vocab_size", "attention_dropout", "initializer_factor"};
  made.unread = {"vision_tower.post_layernorm.", "vision_tower.embeddings.position_ids"};
  made.num_deepstack = no_deepstack;
  made.has_one_size = true;
  made.parameters = parameters;
  made.patch_dim = square_patch_dim;
  made.patch_unit = square_patches;
  made.columns = columns;
  made.features = features;
  return made;
}

}  // namespace tern::models
