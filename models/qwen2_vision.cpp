#include "models/qwen2_vision.h"

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"
#include "models/mmproj.h"
#include "models/qwen_vision.h"
#include "nn/norm.h"

namespace tern::models {
namespace {

constexpr nn::VisionMlpConfig kMlp = {"fc1", "fc2", TERN_ACT_QUICK_GELU};

std::string is_quick_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "quick_gelu" ? "" : "\"quick_gelu\"";
}

std::vector<Field> fields() {
  const FieldValue four = std::int64_t{4};
  return with_fields(
      qwen_vision_fields("embed_dim", "hidden_size"),
      {{"mlp_ratio", "", four, otherwise(four), is_size},
       {"hidden_act", "", FieldValue(std::string()), otherwise(FieldValue(std::string("quick_gelu"))), is_quick_gelu}});
}

std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const std::int64_t width = config.fields.hidden_size;
  const std::int64_t inner = width * config.fields.own_field<std::int64_t>("mlp_ratio");
  const std::int64_t merged = qwen_merge_unit(config) * width;
  ParameterList list;
  add_qwen_patch_embedding(list, config, false);
  for (std::int64_t layer = 0; layer < config.fields.num_hidden_layers; ++layer)
    add_qwen_block(list, qwen_block_names(layer), config, inner, kMlp);
  add_layer_norm(list, "visual.merger.ln_q", width, "v.post_ln");
  add_linear(list, "visual.merger.mlp.0", merged, merged, true, "mm.0");
  add_linear(list, "visual.merger.mlp.2", config.hidden_size, merged, true, "mm.2");
  return list.take();
}

VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const nn::PatchGrid grid = only_grid(grids, qwen_merge(config));
  return qwen_vision_columns(config, grid, patch_places(grid, qwen_merge(config)));
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const nn::VisionSequences whole = qwen_sequences(context, config, patches);
  nn::Residual x(patch_embedding(context, "visual.patch_embed.proj", patches));
  for (std::int64_t layer = 0; layer < config.fields.num_hidden_layers; ++layer)
    qwen_block(context, cat("visual.blocks.", layer), config, whole, kMlp, x);
  const nn::Value normed = nn::layer_norm(context, "visual.merger.ln_q", kQwenVisionEps, x);
  return {nn::vision_mlp(context, "visual.merger.mlp", {"0", "2", TERN_ACT_GELU_ERF},
                         nn::merged_rows(context, normed, qwen_merge_unit(config), kFeatures)),
          {}};
}

io::Json from_mmproj(MmprojKeys& keys) {
  io::Json whole = qwen_from_mmproj(keys, "embed_dim", "hidden_size");
  whole["vision_config"]["mlp_ratio"] = keys.mlp_width() / std::max<std::int64_t>(keys.integer("embedding_length"), 1);
  return whole;
}

}  // namespace

VisionTower qwen2_vision() {
  VisionTower made = qwen_tower("Qwen2VLForConditionalGeneration", "qwen2vl_merger", "qwen2vl");
  made.from_mmproj = from_mmproj;
  made.fields = fields();
  made.other_keys = {"spatial_patch_size"};  // a copy of patch_size
  made.parameters = parameters;
  made.columns = columns;
  made.features = features;
  return made;
}

}  // namespace tern::models
