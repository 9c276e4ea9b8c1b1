// How the engine comes by the images of its requests.
#include <utility>

#include "base/strings.h"
#include "engine/llm_engine.h"
#include "models/vision.h"

namespace tern::engine {

RequestImages LLMEngine::place_images(std::vector<session::ImagePatches> images,
                                      std::span<const std::int32_t> prompt) const {
  if (images.empty()) return {};
  if (images_ == nullptr) {
    throw Failure(data_error("prompt",
                             cat("text alone: ", model_.config.architecture,
                                 model_.config.vision ? " was loaded without its vision tower" : " sees no images"),
                             cat(images.size(), " images"), "leave them out, or choose a model that sees"));
  }
  RequestImages placed = RequestImages::place(std::move(images), prompt, *model_.config.vision).value();
  std::size_t number = 0;
  for (const RequestImage& image : placed.all()) {
    ++number;
    if (const auto patches = image.columns.counts[models::kPatches]; patches > images_->max_patches()) {
      throw Failure(data_error(cat("image ", number), cat("at most ", images_->max_patches(), " patches"), cat(patches),
                               "make it smaller"));
    }
  }
  for (const RequestImages::Span& span : placed.spans()) {
    if (const auto tokens = span.end - span.begin; tokens > options_.max_num_batched_tokens) {
      throw Failure(data_error("prompt",
                               cat("images of at most ", options_.max_num_batched_tokens,
                                   " tokens on end, as a step has, for they see each other both ways"),
                               cat(tokens), "raise --max_num_batched_tokens"));
    }
  }
  return placed;
}

// The tower reads an image in the step that computes its first tokens. False where it could not: that request is out,
// and the batch no longer stands.
bool LLMEngine::encode_images(const Batch& batch) {
  for (const ScheduledSequence& part : batch) {
    for (RequestImage& image : part.sequence->images.all()) {
      if (!image.is_within(part.begin, part.begin + part.count) || !image.features.empty()) continue;
      const Status encoded = catching([&] {
        images_->encode(image);
        runner_->prepare_images();
        return Unit{};
      });
      if (encoded) continue;
      refuse_image(part.sequence->id, image, encoded.error());
      return false;
    }
  }
  return true;
}

}  // namespace tern::engine
