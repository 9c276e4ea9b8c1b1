// What a run says of the sizes of images beside the checkpoint: ms-swift's --max_pixels, and the environment variables
// that it hands to Qwen's processors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "media/image.h"
#include "session/image_config.h"

namespace tern::session {

struct ImageSizes {
  std::int64_t max_pixels = 0;  // an image of more is made smaller before the processor sees it; 0: none is
  // In the place of what a processor of `merged_blocks` has.
  std::optional<std::int64_t> min_tokens, max_tokens;   // IMAGE_MIN_TOKEN_NUM, IMAGE_MAX_TOKEN_NUM
  std::optional<std::int64_t> min_pixels, most_pixels;  // MIN_PIXELS, MAX_PIXELS: a multiple of a token's pixels
  std::optional<std::int64_t> max_ratio;                // MAX_RATIO: of an image's sides
  // What must be the model's own, as it is no matter of choice: IMAGE_FACTOR, a token's pixels a side, and
  // SPATIAL_MERGE_SIZE, its patches a side.
  std::optional<std::int64_t> factor, merge_size;

  // Whether something is said that only processors of `merged_blocks` know.
  [[nodiscard]] bool concern_blocks() const;
  friend bool operator==(const ImageSizes&, const ImageSizes&) = default;
};

// With what the variables say. Error (usage): one that is no integer from 1 on.
[[nodiscard]] Result<ImageSizes> image_sizes_of_environment(std::int64_t max_pixels);

// The processor's limits as the run has them; those of another kind than `merged_blocks` stay. Errors (usage): a model
// of another factor, limits that contradict each other.
[[nodiscard]] Result<ImageConfig> with_sizes(ImageConfig config, const ImageSizes& sizes);

// ms-swift's rescale_image: an image of more than `max_pixels` becomes one of at most so many, in its shape, with
// Pillow's bilinear filter. Throws Failure (data) where no pixel would be left of a side; `name` is what it calls the
// image.
[[nodiscard]] media::Image shrunk(media::Image image, std::int64_t max_pixels, const std::string& name);

// Patches of the largest image that the processor makes, of images of up to `max_pixels` (0: any).
[[nodiscard]] std::int64_t most_patches(const ImageConfig& config, std::int64_t max_pixels);
// The same of images that take no more than `tokens`.
[[nodiscard]] std::int64_t most_patches_of_tokens(const ImageConfig& config, std::int64_t tokens);

}  // namespace tern::session
