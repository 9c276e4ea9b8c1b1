#include "engine/image_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/live_bytes.h"
#include "models/vision.h"
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

void append_floats(std::span<const std::byte> bytes, std::vector<float>& out) {
  const std::size_t before = out.size();
  out.resize(before + bytes.size() / sizeof(float));
  std::memcpy(out.data() + before, bytes.data(), bytes.size());
}

}  // namespace

ImageEncoder::ImageEncoder(models::LoadedModel& model, ImageEncoderOptions options, session::Runtime& runtime)
    : model_(model),
      options_(std::move(options)),
      runtime_(runtime),
      unit_(model.config.vision->tower->patch_unit(*model.config.vision)),
      arena_(std::make_shared<graph::Arena>(model.store->allocator())) {
  const models::VisionTower& tower = *model.config.vision->tower;
  const auto units = [&](std::int64_t patches) { return std::max(patches / unit_, std::int64_t{1}) * unit_; };
  max_patches_ = tower.has_one_size ? unit_ : units(options_.max_patches);
  capacity_ = tower.grids_apart ? std::min(max_patches_, units(options_.patches_at_once)) : max_patches_;
}

graph::Graph ImageEncoder::graph_of(std::int64_t patches, const graph::TensorStore& store) const {
  graph::Graph graph;
  nn::BuildOptions options;
  static_cast<nn::Numerics&>(options) = options_.numerics;
  nn::Context context(graph, store, options);
  const models::VisionConfig& vision = *model_.config.vision;
  const models::VisionFeatures out = vision.tower->features(context, vision, patches);
  graph.output("features", nn::as_f32(context, out.features));
  for (std::size_t i = 0; i < out.deepstack.size(); ++i)
    graph.output(nn::deepstack_name(static_cast<std::int64_t>(i)), nn::as_f32(context, out.deepstack[i]));
  return graph;
}

// Of a graph over weights that are described, and nowhere yet.
ImageMemory ImageEncoder::memory_needed() const {
  ImageMemory memory;
  const models::VisionConfig& vision = *model_.config.vision;
  graph::TensorStore described(model_.store->device());
  for (const models::ParameterSpec& spec : vision.tower->parameters(vision)) {
    tern_tensor tensor{};
    const tern_tensor* stored = model_.store->find(spec.name);
    tensor.desc = stored != nullptr ? stored->desc : make_desc(model_.dtype, spec.shape);
    if (stored == nullptr) memory.weights += total_bytes(tensor.desc);
    (void)described.adopt(spec.name, tensor);
  }
  const auto bound = graph::bind_graph(graph_of(capacity_, described), *model_.store->device(), runtime_.host.get(),
                                       runtime_.program.bind);
  memory.intermediates = graph::live_bytes(bound.graph);
  return memory;
}

void ImageEncoder::load() {
  if (unread_) throw Failure(*unread_);
  if (!options_.load || models::has_vision_weights(model_)) return;
  if (const Status loaded = options_.load(); !loaded) {
    unread_ = loaded.error();
    throw Failure(*unread_);
  }
}

std::int64_t ImageEncoder::whole_units(std::int64_t patches) const { return (patches + unit_ - 1) / unit_ * unit_; }

graph::Program& ImageEncoder::made(std::int64_t size) {
  auto program = runtime_.build(graph_of(size, *model_.store), model_.store, arena_, typical_counts(size));
  return *programs_.insert_or_assign(size, std::move(program)).first->second;
}

// The smallest of doubling sizes that holds so many; where there is no memory for that, one of the image's own size in
// the place of all others.
graph::Program& ImageEncoder::program_for(std::int64_t patches) {
  const auto units = static_cast<std::uint64_t>(whole_units(patches) / unit_);
  const std::int64_t size = std::min(static_cast<std::int64_t>(std::bit_ceil(units)) * unit_, capacity_);
  const auto known = programs_.lower_bound(patches);
  if (known != programs_.end() && known->first <= size) return *known->second;
  try {
    return made(size);
  } catch (const Failure&) {
    programs_.clear();
    model_.store->allocator()->empty_cache();
  }
  return made(whole_units(patches));
}

void ImageEncoder::run(const models::VisionColumns& columns, std::span<const float> patches, RequestImage& out) {
  graph::Program& program = program_for(columns.counts[models::kPatches]);
  graph::RunInputs run;
  run.counts = columns.counts;
  run.inputs["patches"] = std::as_bytes(patches);
  for (const auto& [name, values] : columns.indices) run.inputs[name] = nn::bytes_of(values);
  for (const auto& [name, values] : columns.numbers) run.inputs[name] = nn::bytes_of(values);
  program.run(run);
  append_floats(program.output("features"), out.features);
  for (std::size_t layer = 0; layer < out.deepstack.size(); ++layer)
    append_floats(program.output(nn::deepstack_name(static_cast<std::int64_t>(layer))), out.deepstack[layer]);
  ++runs_;
}

void ImageEncoder::encode(RequestImage& image) {
  if (!image.features.empty()) return;
  load();
  const models::VisionConfig& vision = *model_.config.vision;
  RequestImage seen;
  seen.deepstack.resize(static_cast<std::size_t>(vision.tower->num_deepstack(vision)));
  const std::span<const float> patches = image.image.patches;
  if (const std::int64_t all = image.columns.counts[models::kPatches]; all <= capacity_) {
    run(image.columns, patches, seen);
  } else {
    // Grid by grid, as many as a program holds: none sees another.
    const std::span<const nn::PatchGrid> grids = image.image.grids;
    const auto of_grid = static_cast<std::size_t>(all) / grids.size();
    const std::size_t at_once = static_cast<std::size_t>(capacity_) / of_grid;
    const std::size_t width = patches.size() / static_cast<std::size_t>(all);
    for (std::size_t first = 0; first < grids.size(); first += at_once) {
      const std::size_t count = std::min(at_once, grids.size() - first);
      run(vision.tower->columns(vision, grids.subspan(first, count)),
          patches.subspan(first * of_grid * width, count * of_grid * width), seen);
    }
  }
  image.features = std::move(seen.features);
  image.deepstack = std::move(seen.deepstack);
  image.image.patches = {};
  image.columns = {};
  ++encoded_;
}

}  // namespace tern::engine
