#include "models/qwen2_5_vision.h"

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"
#include "models/mmproj.h"
#include "models/qwen_vision.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "ops/gather_rows.h"

namespace tern::models {
namespace {

std::string is_window(const ModelConfig& config, const FieldValue& value) {
  const std::int64_t feature =
      config.own_field<std::int64_t>("patch_size") * config.own_field<std::int64_t>("spatial_merge_size");
  return std::get<std::int64_t>(value) >= feature ? "" : cat("at least the ", feature, " pixels of a feature");
}

std::vector<Field> fields() {
  const FieldValue number = std::int64_t{0};
  const FieldValue indices = std::vector<std::int64_t>{};
  return with_fields(
      qwen_vision_fields("hidden_size", "out_hidden_size"),
      {{"intermediate_size", "", &ModelConfig::intermediate_size, required(), is_size},
       {"hidden_act", "", FieldValue(std::string()), otherwise(FieldValue(std::string("silu"))), is_silu},
       {"window_size", "", number, otherwise(FieldValue(std::int64_t{112})), is_window},
       {"fullatt_block_indexes", "", indices, otherwise(FieldValue(std::vector<std::int64_t>{7, 15, 23, 31}))}});
}

std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const ModelConfig& own = config.fields;
  const std::int64_t width = own.hidden_size;
  const std::int64_t merged = qwen_merge_unit(config) * width;
  ParameterList list;
  add_qwen_patch_embedding(list, config, false);
  for (std::int64_t layer = 0; layer < own.num_hidden_layers; ++layer) {
    const QwenBlock block = qwen_block_names(layer);
    const std::string mlp = block.module + ".mlp.";
    list.norm(block.module + ".norm1", block.gguf + ".ln1", width);
    add_qwen_attention(list, block, config);
    list.norm(block.module + ".norm2", block.gguf + ".ln2", width);
    add_linear(list, mlp + "gate_proj", own.intermediate_size, width, true, block.gguf + ".ffn_gate");
    add_linear(list, mlp + "up_proj", own.intermediate_size, width, true, block.gguf + ".ffn_up");
    add_linear(list, mlp + "down_proj", width, own.intermediate_size, true, block.gguf + ".ffn_down");
  }
  list.norm("visual.merger.ln_q", "v.post_ln", width);
  add_linear(list, "visual.merger.mlp.0", merged, merged, true, "mm.0");
  add_linear(list, "visual.merger.mlp.2", config.hidden_size, merged, true, "mm.2");
  return list.take();
}

// Features of a side of a window.
std::int64_t window_side(const VisionConfig& config) {
  return config.fields.own_field<std::int64_t>("window_size") / qwen_merge(config) /
         config.fields.own_field<std::int64_t>("patch_size");
}

// Patches stand window by window, so that a window is a sequence.
VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const std::int64_t merge = qwen_merge(config);
  const auto unit = static_cast<std::int32_t>(qwen_merge_unit(config));
  const nn::PatchGrid grid = only_grid(grids, merge);
  WindowOrder windows = window_order(grid, merge, window_side(config));
  const std::vector<std::int32_t> order = each_row(windows.order, unit);
  const std::vector<PatchPlace> as_given = patch_places(grid, merge);
  std::vector<PatchPlace> places;
  places.reserve(order.size());
  for (const std::int32_t patch : order) places.push_back(as_given[static_cast<std::size_t>(patch)]);
  VisionColumns columns = qwen_vision_columns(config, grid, places);
  columns.indices["order"] = order;
  columns.indices["inverse"] = inverse_of(windows.order);
  for (std::int32_t& bound : windows.bounds) bound *= unit;
  columns.counts[kWindowBounds] = static_cast<std::int64_t>(windows.bounds.size());
  columns.indices["cu_window_seqlens"] = std::move(windows.bounds);
  return columns;
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const std::int64_t unit = qwen_merge_unit(config);
  const std::int64_t side = window_side(config);
  const nn::VisionSequences whole = qwen_sequences(context, config, patches);
  nn::VisionSequences windows = whole;
  windows.cu_seqlens = index_column(context, "cu_window_seqlens", patches / unit + 1, kWindowBounds);
  windows.max_seqlen = std::min(patches, side * side * unit);
  const nn::Value order = index_column(context, "order", patches, kPatches);
  const nn::Value embedded = patch_embedding(context, "visual.patch_embed.proj", patches);
  const std::uint32_t needs = context.options().needs;
  nn::Residual x(ops::gather_rows(context.graph(), embedded, order, needs));
  const auto& full = config.fields.own_field<std::vector<std::int64_t>>("fullatt_block_indexes");
  for (std::int64_t layer = 0; layer < config.fields.num_hidden_layers; ++layer) {
    const std::string module = cat("visual.blocks.", layer);
    const bool is_full = std::find(full.begin(), full.end(), layer) != full.end();
    x.add(nn::vision_attention(context, module + ".attn", qwen_vision_attention(config), is_full ? whole : windows,
                               nn::norm(context, module + ".norm1", kQwenVisionEps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".norm2", kQwenVisionEps, x)));
  }
  const nn::Value normed = nn::branch_norm(context, "visual.merger.ln_q", kQwenVisionEps, nn::stream(context, x));
  const nn::Value merged = nn::vision_mlp(context, "visual.merger.mlp", {"0", "2", TERN_ACT_GELU_ERF},
                                          nn::merged_rows(context, normed, unit, kFeatures));
  const nn::Value inverse = index_column(context, "inverse", patches / unit, kFeatures);
  return {ops::gather_rows(context.graph(), merged, inverse, needs), {}};
}

// llama.cpp's converter leaves the window's size out, which is 112 in every published model.
io::Json from_mmproj(MmprojKeys& keys) {
  io::Json whole = qwen_from_mmproj(keys, "hidden_size", "out_hidden_size");
  io::Json& own = whole["vision_config"];
  own["intermediate_size"] = keys.mlp_width();
  own["window_size"] = keys.integer_or("window_size", 112);
  const std::int64_t period = keys.integer("n_wa_pattern");  // of layers, the last of which sees all
  std::vector<std::int64_t> full;
  for (std::int64_t layer = 0; layer < keys.layers(); ++layer) {
    if (period <= 0 || (layer + 1) % period == 0) full.push_back(layer);
  }
  own["fullatt_block_indexes"] = io::Json(full);
  return whole;
}

}  // namespace

VisionTower qwen2_5_vision() {
  VisionTower made = qwen_tower("Qwen2_5_VLForConditionalGeneration", "qwen2.5vl_merger", "qwen2vl");
  made.from_mmproj = from_mmproj;
  made.fields = fields();
  made.other_keys = {"spatial_patch_size", "tokens_per_second"};  // a copy of patch_size; of videos
  made.parameters = parameters;
  made.columns = columns;
  made.features = features;
  return made;
}

}  // namespace tern::models
