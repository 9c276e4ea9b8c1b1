#include "models/vision.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "models/config_read.h"
#include "models/gemma3_vision.h"
#include "models/internvl_vision.h"
#include "models/llava_vision.h"
#include "models/loader.h"
#include "models/mmproj.h"
#include "models/parameter_reader.h"
#include "models/qwen2_5_vision.h"
#include "models/qwen2_vision.h"
#include "models/qwen3_vision.h"
#include "nn/linear.h"

namespace tern::models {
namespace {

const auto& table() {
  static const std::array rows = {qwen2_5_vision(),     qwen2_vision(),    qwen3_vision(),
                                  qwen3_moe_vision(),   qwen3_5_vision(),  gemma3_vision(),
                                  qwen3_5_moe_vision(), internvl_vision(), llava_vision()};
  return rows;
}

// Of the language model's positions, which config.json keeps with its other rope parameters.
std::vector<std::int64_t> mrope_section(const io::JsonField& text, const VisionTower& tower,
                                        const ModelConfig& config) {
  std::vector<std::int64_t> section = tower.mrope_section;
  if (section.empty()) return {};
  io::JsonPlace place = text.place().field("rope_parameters").field("mrope_section");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto inner = text.find(key);
    const auto said = inner ? inner->find("mrope_section") : std::nullopt;
    if (!said) continue;
    section = said->integers();
    place = said->place();
  }
  const std::string expected = are_mrope_sections(config, section);
  if (expected.empty()) return section;
  throw Failure(place.error(expected, value_text(section), "take config.json from the model's repository again"));
}

}  // namespace

std::span<const VisionTower> vision_towers() { return table(); }

const VisionTower* find_vision_tower(const std::string& whole) {
  const auto& rows = table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.whole == whole; });
  return found == rows.end() ? nullptr : &*found;
}

std::shared_ptr<const VisionConfig> read_vision(const io::JsonField& whole, const io::JsonField& text,
                                                const ModelConfig& config) {
  const auto names = whole.find("architectures");
  const auto own = whole.find("vision_config");
  const VisionTower* tower = names ? find_vision_tower(names->texts().front()) : nullptr;
  if (tower == nullptr || !own) return nullptr;
  if (!tower->type.empty() && own->text("model_type", tower->type) != tower->type) return nullptr;
  auto vision = std::make_shared<VisionConfig>(read_tower(*tower, whole, *own, config));
  vision->image_token_id = whole.integer(tower->image_token, -1);
  vision->mrope_section = mrope_section(text, *tower, config);
  return vision;
}

VisionConfig read_tower(const VisionTower& tower, const io::JsonField& whole, const io::JsonField& own,
                        const ModelConfig& text) {
  VisionConfig vision;
  vision.tower = &tower;
  vision.hidden_size = text.hidden_size;
  vision.fields.own["text_hidden_size"] = text.hidden_size;
  read_fields(whole, tower.fields_of_whole, vision.fields);
  read_fields(own, tower.fields, vision.fields);
  refuse_unknown_fields(own, tower.fields, tower.other_keys, cat("the vision tower of ", tower.whole));
  return vision;
}

std::string are_mrope_sections(const ModelConfig& text, const std::vector<std::int64_t>& section) {
  std::int64_t pairs = 0;
  bool counts = section.size() == 3;
  for (const std::int64_t each : section) {
    counts = counts && each >= 0;
    pairs += std::clamp<std::int64_t>(each, 0, text.rotary_dim);
  }
  return counts && pairs == text.rotary_dim / 2
             ? ""
             : cat("three counts that add up to the ", text.rotary_dim / 2, " pairs of a head");
}

std::string vision_part_name(const std::string& tensor) {
  constexpr std::string_view kModel = "model.";
  constexpr std::string_view kOldLevel = "vision_tower.vision_model.";  // as transformers had it before version 5
  std::string name = tensor.starts_with(kModel) ? tensor.substr(kModel.size()) : tensor;
  if (name.starts_with(kOldLevel)) name = cat("vision_tower.", name.substr(kOldLevel.size()));
  for (const char* part : {"visual.", "vision_tower.", "multi_modal_projector."}) {
    if (name.starts_with(part)) return name;
  }
  return "";
}

Status load_vision(LoadedModel& model, const LoadOptions& options) {
  const VisionConfig& vision = *model.config.vision;
  const auto specs = vision.tower->parameters(vision);
  Status loaded = catching([&] {
    const auto& source = vision.file ? vision.file : model.source;
    const auto name_of = vision.file ? mmproj_names(*vision.file) : vision_part_name;
    ParameterReader reader(*source, [&](const std::string& tensor) {
      const std::string name = name_of(tensor);
      const auto& unread = vision.tower->unread;
      const bool is_read =
          std::none_of(unread.begin(), unread.end(), [&](const auto& each) { return name.starts_with(each); });
      return is_read ? name : std::string();
    });
    reader.require_all(specs, model.config);
    for (std::string& note : load_parameters(specs, reader, source, *model.store, options).value())
      model.notes.push_back(std::move(note));
    return Unit{};
  });
  if (!loaded) {
    for (const ParameterSpec& spec : specs) model.store->erase(spec.name);
    model.store->allocator()->empty_cache();
  }
  return loaded;
}

bool has_vision_weights(const LoadedModel& model) {
  if (model.config.vision == nullptr) return false;
  const VisionConfig& vision = *model.config.vision;
  return model.store->find(vision.tower->parameters(vision).front().name) != nullptr;
}

void add_patch_embedding(ParameterList& list, const std::string& module, std::int64_t out,
                         std::vector<std::int64_t> kernel, bool bias) {
  std::int64_t width = 1;
  for (const std::int64_t size : kernel) width *= size;
  ParameterSpec& weight = list.tensor(module + ".weight", {out, width}, "v.patch_embd.weight");
  kernel.insert(kernel.begin(), out);
  weight.gguf.shape = kernel;
  if (kernel.size() == 5) {  // [out, c, t, kh, kw]
    for (std::int64_t step = 1; step < kernel[2]; ++step)
      weight.gguf.tensors.push_back(cat("v.patch_embd.weight.", step));
    weight.gguf.woven_columns = kernel[3] * kernel[4];
    weight.gguf.shape.erase(weight.gguf.shape.begin() + 2);
  }
  weight.hugging_face.shape = std::move(kernel);
  if (bias) list.tensor(module + ".bias", {out}, "v.patch_embd.bias").is_bias = true;
}

void add_layer_norm(ParameterList& list, const std::string& module, std::int64_t width, const std::string& gguf) {
  list.norm(module, gguf, width);
  list.tensor(module + ".bias", {width}, gguf + ".bias").is_bias = true;
}

void add_linear(ParameterList& list, const std::string& module, std::int64_t out, std::int64_t in, bool bias,
                const std::string& gguf) {
  list.linear(module, gguf, {out, in, bias});
}

nn::Value patch_embedding(nn::Context& context, const std::string& module, std::int64_t patches) {
  const nn::Value weight = context.weight(module + ".weight");
  const TensorDesc desc = make_desc(TERN_F32, {patches, context.graph().desc(weight).shape[1]});
  const nn::Value rows = context.graph().input("patches", with_dynamic(desc, 0, kPatches));
  const nn::Value bias = context.has(module + ".bias") ? context.weight(module + ".bias") : nn::Value{};
  return nn::product(context, rows, weight, bias, context.options().activations, context.options().compute);
}

nn::Value index_column(nn::Context& context, const char* name, std::int64_t count, VisionCount slot) {
  const bool is_bound = slot == kImageBounds || slot == kWindowBounds;
  return context.graph().input(name, with_dynamic(make_desc(TERN_I32, {count}), 0, slot),
                               is_bound ? graph::Padding::repeat_last : graph::Padding::zero);
}

nn::Value number_column(nn::Context& context, const char* name, std::int64_t count, std::int64_t width) {
  return context.graph().input(name, with_dynamic(make_desc(TERN_F32, {count, width}), 0, kPatches));
}

nn::PatchGrid only_grid(std::span<const nn::PatchGrid> grids, std::int64_t merge) {
  const bool is_one = grids.size() == 1 && grids[0].t == 1 && grids[0].h > 0 && grids[0].w > 0;
  if (is_one && grids[0].h % merge == 0 && grids[0].w % merge == 0) return grids[0];
  const std::string found =
      grids.size() == 1 ? cat(grids[0].t, " x ", grids[0].h, " x ", grids[0].w) : cat(grids.size(), " grids");
  throw Failure(data_error("image", cat("one grid of patches, 1 x ", merge, "h x ", merge, "w"), found,
                           "make its patches as the model's own processor does"));
}

std::int64_t no_deepstack(const VisionConfig& /*config*/) { return 0; }

}  // namespace tern::models
