#include "engine/image_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "nn/scale.h"
#include "nn/token_inputs.h"

namespace tern::engine {
namespace {

// What kernels are measured with: an image of a usual size, as the largest ones would take seconds each time.
graph::Counts typical_counts(std::int64_t patches) {
  constexpr std::int64_t kUsual = 4096;  // patches
  graph::Counts counts{};
  counts[models::kPatches] = counts[models::kPatchRows] = std::min(patches, kUsual);
  return counts;
}

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

ImageEncoder::ImageEncoder(models::LoadedModel& model, const nn::Numerics& numerics, std::int64_t max_patches,
                           session::Runtime& runtime)
    : model_(model),
      numerics_(numerics),
      runtime_(runtime),
      arena_(std::make_shared<graph::Arena>(model.store->allocator())) {
  const models::VisionTower& tower = *model.config.vision->tower;
  const std::int64_t unit = tower.patch_unit(*model.config.vision);
  max_patches_ = tower.has_one_size ? unit : std::max(max_patches / unit, std::int64_t{1}) * unit;
  (void)program_for(max_patches_);  // a lack of memory shows now
}

std::unique_ptr<graph::Program> ImageEncoder::build(std::int64_t patches) {
  graph::Graph graph;
  nn::BuildOptions options;
  static_cast<nn::Numerics&>(options) = numerics_;
  nn::Context context(graph, *model_.store, options);
  const models::VisionConfig& vision = *model_.config.vision;
  const models::VisionFeatures out = vision.tower->features(context, vision, patches);
  graph.output("features", nn::as_f32(context, out.features));
  for (std::size_t i = 0; i < out.deepstack.size(); ++i)
    graph.output(nn::deepstack_name(static_cast<std::int64_t>(i)), nn::as_f32(context, out.deepstack[i]));
  return runtime_.build(graph, model_.store, arena_, typical_counts(patches));
}

// The smallest of doubling sizes that holds so many.
graph::Program& ImageEncoder::program_for(std::int64_t patches) {
  const std::int64_t unit = model_.config.vision->tower->patch_unit(*model_.config.vision);
  const auto units = static_cast<std::uint64_t>((patches + unit - 1) / unit);
  const std::int64_t size = std::min(static_cast<std::int64_t>(std::bit_ceil(units)) * unit, max_patches_);
  std::unique_ptr<graph::Program>& program = programs_[size];
  if (program == nullptr) program = build(size);
  return *program;
}

void ImageEncoder::encode(RequestImage& image) {
  if (!image.features.empty()) return;
  const models::VisionColumns& columns = image.columns;
  graph::RunInputs run;
  run.counts = columns.counts;
  run.inputs["patches"] = nn::bytes_of(image.image.patches);
  for (const auto& [name, values] : columns.indices) run.inputs[name] = nn::bytes_of(values);
  for (const auto& [name, values] : columns.numbers) run.inputs[name] = nn::bytes_of(values);
  graph::Program& program = program_for(columns.counts[models::kPatches]);
  program.run(run);
  image.features = floats(program.output("features"));
  const models::VisionConfig& vision = *model_.config.vision;
  for (std::int64_t layer = 0; layer < vision.tower->num_deepstack(vision); ++layer)
    image.deepstack.push_back(floats(program.output(nn::deepstack_name(layer))));
  image.image.patches = {};
  image.columns = {};
  ++encoded_;
}

}  // namespace tern::engine
