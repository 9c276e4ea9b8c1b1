// What a step with images hands to its program beside its tokens (nn::ImageInputs), written in place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/token_inputs.h"

namespace tern::engine {

// What programs for steps with images of this model are declared with.
[[nodiscard]] nn::ImageCapacity image_capacity(const models::LoadedModel& model);
// Whether the part computes a token of an image.
[[nodiscard]] inline bool has_images(const ScheduledSequence& part) {
  return part.sequence->images.any_within(part.begin, part.begin + part.count);
}

class ImageStepInputs {
 public:
  // Over a program that was declared with image_capacity(model), which outlives it.
  ImageStepInputs(graph::Program& program, const models::LoadedModel& model);

  // Writes them behind StepInputs::fill of the same batch, whose images have their features.
  void fill(const Batch& batch);

 private:
  void fill_features(const ScheduledSequence& part, std::int64_t row);
  void fill_rope(const ScheduledSequence& part, std::int64_t row);
  void fill_masks(const ScheduledSequence& part, std::int64_t row);
  template <typename T>
  [[nodiscard]] std::span<T> input(const std::string& name);

  graph::Program& program_;
  const models::VisionConfig& vision_;
  nn::ImageCapacity capacity_;
  std::vector<models::RopeTable> ropes_;  // the one table of a model whose images have positions of three dimensions
  std::span<std::int32_t> text_ids_, ids_, positions_;
  std::span<float> features_, rope_cos_, rope_sin_;
  std::vector<std::span<float>> deepstack_;
  std::vector<std::span<std::uint8_t>> masks_;  // by capacity_.windows
};

}  // namespace tern::engine
