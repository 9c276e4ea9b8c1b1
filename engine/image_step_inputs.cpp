#include "engine/image_step_inputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/vision.h"
#include "models/vision_grid.h"

namespace tern::engine {

nn::ImageCapacity image_capacity(const models::LoadedModel& model) {
  const models::VisionConfig& vision = *model.config.vision;
  nn::ImageCapacity capacity;
  capacity.hidden_size = vision.hidden_size;
  capacity.deepstack = vision.tower->num_deepstack(vision);
  if (!vision.mrope_section.empty()) capacity.rope_pairs = model.config.rotary_dim / 2;
  if (!vision.tower->sees_itself) return capacity;
  std::set<std::int64_t> windows;
  for (const nn::CacheSpec& spec : model.architecture->cache_specs(model.config)) windows.insert(spec.window);
  capacity.windows.assign(windows.begin(), windows.end());
  return capacity;
}

ImageStepInputs::ImageStepInputs(graph::Program& program, const models::LoadedModel& model)
    : program_(program), vision_(*model.config.vision), capacity_(image_capacity(model)) {
  if (capacity_.rope_pairs > 0) ropes_ = model.architecture->rope_tables(model.config);
  deepstack_.resize(static_cast<std::size_t>(capacity_.deepstack));
  masks_.resize(capacity_.windows.size());
}

template <typename T>
std::span<T> ImageStepInputs::input(const std::string& name) {
  const std::span<std::byte> bytes = program_.input(program_.input_id(name));
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

void ImageStepInputs::fill(const Batch& batch) {
  ids_ = input<std::int32_t>("ids");
  text_ids_ = input<std::int32_t>("text_ids");
  features_ = input<float>("features");
  for (std::size_t i = 0; i < deepstack_.size(); ++i)
    deepstack_[i] = input<float>(nn::deepstack_name(static_cast<std::int64_t>(i)));
  for (std::size_t i = 0; i < masks_.size(); ++i) masks_[i] = input<std::uint8_t>(nn::mask_name(capacity_.windows[i]));
  if (capacity_.rope_pairs > 0) {
    positions_ = input<std::int32_t>("positions");
    rope_cos_ = input<float>("rope_cos");
    rope_sin_ = input<float>("rope_sin");
  }
  std::int64_t row = 0;
  for (const ScheduledSequence& part : batch) {
    fill_features(part, row);
    if (capacity_.rope_pairs > 0) fill_rope(part, row);
    if (!masks_.empty()) fill_masks(part, row);
    row += part.count;
  }
}

void ImageStepInputs::fill_features(const ScheduledSequence& part, std::int64_t row) {
  const std::int64_t width = capacity_.hidden_size;
  const auto put = [&](std::span<float> column, const std::vector<float>* from, std::int64_t at) {
    float* to = column.data() + row * width;
    if (from == nullptr) {
      std::fill_n(to, width, 0.0F);
    } else {
      std::copy_n(from->data() + at * width, width, to);
    }
  };
  for (std::int64_t token = part.begin; token < part.begin + part.count; ++token, ++row) {
    const RequestImage* image = part.sequence->images.at(token);
    const std::int64_t at = image == nullptr ? 0 : token - image->begin;
    text_ids_[static_cast<std::size_t>(row)] = image == nullptr ? ids_[static_cast<std::size_t>(row)] : -1;
    put(features_, image == nullptr ? nullptr : &image->features, at);
    for (std::size_t i = 0; i < deepstack_.size(); ++i)
      put(deepstack_[i], image == nullptr ? nullptr : &image->deepstack[i], at);
  }
}

// A row of the table for each token, as its three positions turn it.
void ImageStepInputs::fill_rope(const ScheduledSequence& part, std::int64_t row) {
  const models::RopeTable& rope = ropes_.front();
  const std::int64_t pairs = capacity_.rope_pairs;
  for (std::int64_t token = part.begin; token < part.begin + part.count; ++token, ++row) {
    const RequestImage* image = part.sequence->images.at(token);
    models::MropePosition position;
    if (image == nullptr) {
      std::fill(std::begin(position.axis), std::end(position.axis), part.sequence->images.position(token));
    } else {
      position = models::mrope_position(image->image.grids.front(),
                                        vision_.fields.own_field<std::int64_t>("spatial_merge_size"), image->position,
                                        token - image->begin);
    }
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const int axis = models::mrope_axis(vision_.mrope_section, vision_.tower->mrope_interleaved, pair);
      const double phase = static_cast<double>(position.axis[axis]) * rope.frequencies[static_cast<std::size_t>(pair)];
      const auto at = static_cast<std::size_t>(row * pairs + pair);
      rope_cos_[at] = static_cast<float>(rope.amplitude * std::cos(phase));
      rope_sin_[at] = static_cast<float>(rope.amplitude * std::sin(phase));
    }
    positions_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(row);
  }
}

// A token sees itself, those before it and those of its own image, of all these none that a window has passed.
void ImageStepInputs::fill_masks(const ScheduledSequence& part, std::int64_t row) {
  const std::int64_t keys = part.begin + part.count;
  for (std::int64_t token = part.begin; token < keys; ++token, ++row) {
    const std::int64_t end = std::max(token + 1, part.sequence->images.span_at(token).end);
    for (std::size_t i = 0; i < masks_.size(); ++i) {
      const std::int64_t window = capacity_.windows[i];
      const std::int64_t begin = window > 0 ? std::max<std::int64_t>(token + 1 - window, 0) : 0;
      const auto width = static_cast<std::int64_t>(masks_[i].size()) / static_cast<std::int64_t>(ids_.size());
      std::uint8_t* mask = masks_[i].data() + row * width;
      std::fill_n(mask, begin, std::uint8_t{0});
      std::fill(mask + begin, mask + end, std::uint8_t{1});
      std::fill(mask + end, mask + keys, std::uint8_t{0});
    }
  }
}

}  // namespace tern::engine
