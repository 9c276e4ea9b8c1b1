#include "models/qwen3_vision.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "io/json.h"
#include "models/gemma_fields.h"
#include "models/mmproj.h"
#include "models/qwen_vision.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "ops/build.h"
#include "ops/gather_rows.h"
#include "ops/mul.h"

namespace tern::models {
namespace {

constexpr nn::VisionMlpConfig kMlp = {"linear_fc1", "linear_fc2", TERN_ACT_GELU_TANH};
constexpr const char* kRows[] = {"position_rows/0", "position_rows/1", "position_rows/2", "position_rows/3"};
constexpr const char* kWeights[] = {"position_weights/0", "position_weights/1", "position_weights/2",
                                    "position_weights/3"};

std::int64_t side_of(std::int64_t positions) { return std::llround(std::sqrt(static_cast<double>(positions))); }

std::string is_square(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  const auto positions = std::get<std::int64_t>(value);
  return side_of(positions) * side_of(positions) == positions ? "" : "the square of a whole number";
}

std::string are_layers(const ModelConfig& config, const FieldValue& value) {
  const auto& layers = std::get<std::vector<std::int64_t>>(value);
  const bool fits = std::all_of(layers.begin(), layers.end(),
                                [&](std::int64_t layer) { return layer >= 0 && layer < config.num_hidden_layers; });
  return fits ? "" : cat("layers from 0 to ", config.num_hidden_layers - 1);
}

// Where Qwen3.5's configurations have the key, it is empty: its language model takes features at its beginning alone.
std::string is_empty(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::vector<std::int64_t>>(value).empty() ? "" : "an empty array";
}

std::vector<Field> fields(std::vector<std::int64_t> deepstack, Law law) {
  const FieldValue layers = std::vector<std::int64_t>{};
  std::vector<Field> all =
      with_fields(qwen_vision_fields("hidden_size", "out_hidden_size"),
                  {{"intermediate_size", "", &ModelConfig::intermediate_size, required(), is_size},
                   {"num_position_embeddings", "", FieldValue(std::int64_t{0}), required(), is_square},
                   {"deepstack_visual_indexes", "", layers, otherwise(FieldValue(std::move(deepstack))), law}});
  return with_fields(std::move(all), {gelu_tanh_fields().front()});
}

const std::vector<std::int64_t>& deepstack_layers(const VisionConfig& config) {
  return config.fields.own_field<std::vector<std::int64_t>>("deepstack_visual_indexes");
}
std::int64_t num_deepstack(const VisionConfig& config) {
  return static_cast<std::int64_t>(deepstack_layers(config).size());
}

// What a GGUF calls a merger's layers.
struct MergerNames {
  std::string norm, first, second;
};

void add_merger(ParameterList& list, const std::string& module, const VisionConfig& config, std::int64_t normed,
                const MergerNames& gguf) {
  const std::int64_t merged = qwen_merge_unit(config) * config.fields.hidden_size;
  add_layer_norm(list, module + ".norm", normed, gguf.norm);
  add_linear(list, module + ".linear_fc1", merged, merged, true, gguf.first);
  add_linear(list, module + ".linear_fc2", config.hidden_size, merged, true, gguf.second);
}

std::vector<ParameterSpec> parameters(const VisionConfig& config) {
  const ModelConfig& own = config.fields;
  const std::int64_t width = own.hidden_size;
  ParameterList list;
  add_qwen_patch_embedding(list, config, true);
  list.embedding("visual.pos_embed", "v.position_embd", own.own_field<std::int64_t>("num_position_embeddings"), width);
  for (std::int64_t layer = 0; layer < own.num_hidden_layers; ++layer)
    add_qwen_block(list, qwen_block_names(layer, true), config, own.intermediate_size, kMlp);
  add_merger(list, "visual.merger", config, width, {"v.post_ln", "mm.0", "mm.2"});
  for (std::int64_t i = 0; i < num_deepstack(config); ++i) {
    const std::string gguf = cat("v.deepstack.", deepstack_layers(config)[static_cast<std::size_t>(i)]);
    add_merger(list, cat("visual.deepstack_merger_list.", i), config, qwen_merge_unit(config) * width,
               {gguf + ".norm", gguf + ".fc1", gguf + ".fc2"});
  }
  return list.take();
}

VisionColumns columns(const VisionConfig& config, std::span<const nn::PatchGrid> grids) {
  const nn::PatchGrid grid = only_grid(grids, qwen_merge(config));
  const std::vector<PatchPlace> places = patch_places(grid, qwen_merge(config));
  VisionColumns columns = qwen_vision_columns(config, grid, places);
  Interpolation spread =
      interpolate(grid, places, side_of(config.fields.own_field<std::int64_t>("num_position_embeddings")));
  for (int corner = 0; corner < 4; ++corner) {
    columns.indices[kRows[corner]] = std::move(spread.rows[corner]);
    columns.numbers[kWeights[corner]] = std::move(spread.weights[corner]);
  }
  return columns;
}

// One corner's rows of the table, each times its weight.
nn::Value weighted_positions(nn::Context& context, std::int64_t patches, int corner) {
  graph::Graph& graph = context.graph();
  const nn::Value rows =
      ops::gather_rows(graph, context.weight("visual.pos_embed.weight"),
                       index_column(context, kRows[corner], patches, kPatches), context.options().needs);
  const nn::Value weights = number_column(context, kWeights[corner], patches, 1);
  TensorDesc wide = ops::like(graph.desc(rows), TERN_F32);
  wide.strides[0] = 1;
  wide.strides[1] = 0;
  ops::MulOptions product;
  product.needs = context.options().needs;
  return ops::mul(graph, rows, graph.view(weights, wide, 0), product);
}

nn::Value merger(nn::Context& context, const std::string& module, const VisionConfig& config, bool merge_first,
                 nn::Value x) {
  const std::int64_t unit = qwen_merge_unit(config);
  if (merge_first) x = nn::merged_rows(context, x, unit, kFeatures);
  x = nn::branch_layer_norm(context, module + ".norm", kQwenVisionEps, x);
  if (!merge_first) x = nn::merged_rows(context, x, unit, kFeatures);
  return nn::vision_mlp(context, module, {"linear_fc1", "linear_fc2", TERN_ACT_GELU_ERF}, x);
}

VisionFeatures features(nn::Context& context, const VisionConfig& config, std::int64_t patches) {
  const nn::VisionSequences whole = qwen_sequences(context, config, patches);
  nn::Value begin = patch_embedding(context, "visual.patch_embed.proj", patches);
  nn::Value positions = weighted_positions(context, patches, 0);
  for (int corner = 1; corner < 4; ++corner)
    positions = nn::weighted_sum(context, 1.0, positions, 1.0, weighted_positions(context, patches, corner));
  nn::Residual x(nn::weighted_sum(context, 1.0, begin, 1.0, positions));
  const auto& layers = deepstack_layers(config);
  VisionFeatures out;  // whose deepstack comes in the order of these layers, whatever order config.json has
  for (std::int64_t layer = 0; layer < config.fields.num_hidden_layers; ++layer) {
    qwen_block(context, cat("visual.blocks.", layer), config, whole, kMlp, x);
    const auto found = std::find(layers.begin(), layers.end(), layer);
    if (found == layers.end()) continue;
    const auto index = found - layers.begin();
    out.deepstack.push_back(
        merger(context, cat("visual.deepstack_merger_list.", index), config, true, nn::stream(context, x)));
  }
  out.features = merger(context, "visual.merger", config, false, nn::stream(context, x));
  return out;
}

io::Json from_mmproj(MmprojKeys& keys) {
  io::Json whole = qwen_from_mmproj(keys, "hidden_size", "out_hidden_size");
  io::Json& own = whole["vision_config"];
  own["intermediate_size"] = keys.mlp_width();
  own["num_position_embeddings"] = keys.rows("v.position_embd.weight");
  own["deepstack_visual_indexes"] = io::Json(keys.true_layers("is_deepstack_layers"));
  return whole;
}

// All but fields and sections.
VisionTower tower(std::string whole, std::string language) {
  VisionTower made = qwen_tower(std::move(whole), "qwen3vl_merger", std::move(language));
  made.from_mmproj = from_mmproj;
  made.fewest_tokens = 64;
  made.num_deepstack = num_deepstack;
  made.mrope_interleaved = true;
  made.parameters = parameters;
  made.columns = columns;
  made.features = features;
  return made;
}

VisionTower with_deepstack(std::string whole, std::string language) {
  VisionTower made = tower(std::move(whole), std::move(language));
  made.fields = fields({8, 16, 24}, are_layers);
  made.mrope_section = {24, 20, 20};
  return made;
}

VisionTower without_deepstack(std::string whole, std::string language) {
  VisionTower made = tower(std::move(whole), std::move(language));
  made.fields = fields({}, is_empty);
  made.mrope_section = {11, 11, 10};
  return made;
}

}  // namespace

VisionTower qwen3_vision() { return with_deepstack("Qwen3VLForConditionalGeneration", "qwen3vl"); }
VisionTower qwen3_moe_vision() { return with_deepstack("Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe"); }
VisionTower qwen3_5_vision() { return without_deepstack("Qwen3_5ForConditionalGeneration", "qwen35"); }
VisionTower qwen3_5_moe_vision() { return without_deepstack("Qwen3_5MoeForConditionalGeneration", "qwen35moe"); }

}  // namespace tern::models
