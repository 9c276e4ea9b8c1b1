// The vision tower at work: features of images, one image at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/request_images.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

class ImageEncoder {
 public:
  // The model's tower is loaded (models::load_vision), and the model outlives the encoder. Throws Failure (device)
  // where there is no memory for an image of `max_patches` patches.
  ImageEncoder(models::LoadedModel& model, const nn::Numerics& numerics, std::int64_t max_patches,
               session::Runtime& runtime);

  // Puts the features in, and lets the patches go. An image that has them already costs nothing. The image has at most
  // max_patches() patches.
  void encode(RequestImage& image);

  [[nodiscard]] std::int64_t max_patches() const { return max_patches_; }
  [[nodiscard]] std::int64_t num_encoded() const { return encoded_; }  // images that the tower read so far
  // Of the program of the largest image.
  [[nodiscard]] const graph::MemoryReport& memory() const { return programs_.rbegin()->second->memory(); }

 private:
  [[nodiscard]] graph::Program& program_for(std::int64_t patches);
  [[nodiscard]] std::unique_ptr<graph::Program> build(std::int64_t patches);

  models::LoadedModel& model_;
  nn::Numerics numerics_;
  session::Runtime& runtime_;
  std::int64_t max_patches_;
  std::int64_t encoded_ = 0;
  std::shared_ptr<graph::Arena> arena_;                               // of all programs, which take turns
  std::map<std::int64_t, std::unique_ptr<graph::Program>> programs_;  // by the patches that they hold
};

}  // namespace tern::engine
