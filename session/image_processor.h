// Images as a model's tower takes them, as transformers' processors of this checkpoint make them.
#pragma once

#include <string>

#include "media/image.h"
#include "session/image_config.h"
#include "session/image_patches.h"

namespace tern::session {

// The size of `merged_blocks`: sides that are multiples of patch_size * merge_size, an area within the limits, and a
// shape as near to the image's as they allow (Qwen's smart_resize). Throws Failure (data) for an image more than
// max_ratio times as long as wide.
struct ImageSize {
  std::int64_t height = 0, width = 0;
};
[[nodiscard]] ImageSize block_size(const ImageConfig& config, ImageSize image, const std::string& name);

// How many `tiles` an image is cut into, along its height and its width.
[[nodiscard]] ImageSize tile_grid(const ImageConfig& config, ImageSize image);

// `name` is what errors call the image. Errors (data): an image that the processor refuses.
[[nodiscard]] Result<ImagePatches> make_patches(const ImageConfig& config, const media::Image& image,
                                                const std::string& name);

}  // namespace tern::session
