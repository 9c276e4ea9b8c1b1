// The vision tower at work: features of images, one image at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/request_images.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct ImageEncoderOptions {
  nn::Numerics numerics;
  std::int64_t max_patches = 16384;      // of one image
  std::int64_t patches_at_once = 16384;  // where the grids of an image know nothing of each other: of one run
  std::function<Status()> load;          // reads the tower's weights (models::load_vision); empty: they are there
};

// Bytes of the device that a tower takes, told before it takes any.
struct ImageMemory {
  std::uint64_t weights = 0;        // that are yet to be read
  std::uint64_t intermediates = 0;  // of the largest image, without workspaces of kernels
  [[nodiscard]] std::uint64_t total() const { return weights + intermediates; }
};

class ImageEncoder {
 public:
  // Reads nothing and takes no memory before the first image. The model outlives the encoder.
  ImageEncoder(models::LoadedModel& model, ImageEncoderOptions options, session::Runtime& runtime);

  // Puts the features in, and lets the patches go. An image that has them already costs nothing. The image has at most
  // max_patches() patches. Throws Failure (device, data) where its program finds no memory, or the tower's weights
  // can't be read, which is not tried again: the image stays as it was, and others may be encoded.
  void encode(RequestImage& image);

  [[nodiscard]] std::int64_t max_patches() const { return max_patches_; }
  [[nodiscard]] std::int64_t num_encoded() const { return encoded_; }  // images that the tower read so far
  [[nodiscard]] std::int64_t num_runs() const { return runs_; }        // of programs
  [[nodiscard]] ImageMemory memory_needed() const;
  // That programs hold.
  [[nodiscard]] std::uint64_t bytes() const { return arena_->bytes(); }
  // Of the program of the largest image so far; all 0 before the first.
  [[nodiscard]] graph::MemoryReport memory() const {
    return programs_.empty() ? graph::MemoryReport{} : programs_.rbegin()->second->memory();
  }

 private:
  void load();
  [[nodiscard]] graph::Graph graph_of(std::int64_t patches, const graph::TensorStore& store) const;
  [[nodiscard]] graph::Program& program_for(std::int64_t patches);
  [[nodiscard]] graph::Program& made(std::int64_t size);
  [[nodiscard]] std::int64_t whole_units(std::int64_t patches) const;
  void run(const models::VisionColumns& columns, std::span<const float> patches, RequestImage& out);

  models::LoadedModel& model_;
  ImageEncoderOptions options_;
  session::Runtime& runtime_;
  std::int64_t unit_;         // of patches
  std::int64_t max_patches_;  // of an image
  std::int64_t capacity_;     // of the largest program
  std::int64_t encoded_ = 0, runs_ = 0;
  std::optional<Error> unread_;                                       // why there are no weights
  std::shared_ptr<graph::Arena> arena_;                               // of all programs, which take turns
  std::map<std::int64_t, std::unique_ptr<graph::Program>> programs_;  // by the patches that they hold
};

}  // namespace tern::engine
