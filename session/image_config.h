// What a checkpoint says of how images are prepared for its tower: preprocessor_config.json, or the member
// "image_processor" of processor_config.json, which newer releases of transformers write; read here and nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"
#include "media/resize.h"

namespace tern::session {

// How an image is cut: to a size of its own that keeps its shape, in blocks of merged patches (Qwen's processors); to
// one square (Gemma 3); to tiles of one size, and a small picture of the whole behind them (InternVL); to its middle,
// of one size (CLIP).
enum class ImageCut { merged_blocks, square, tiles, middle };

inline constexpr std::int64_t kLargestArea = std::int64_t{1} << 26;  // pixels, whatever a processor says

struct ImageConfig {
  ImageCut cut = ImageCut::square;
  bool resizes = true;                      // else an image has the right size, or is refused
  bool rescales = true, normalises = true;  // bytes by the factor, and then by mean and std
  media::Filter filter = media::Filter::bicubic;
  double rescale_factor = 1.0 / 255;
  std::array<double, 3> mean{}, std{};
  std::int64_t patch_size = 0;                  // pixels a side
  std::int64_t temporal_patch_size = 1;         // a still image is so many equal frames
  std::int64_t merge_size = 1;                  // so many patches a side make one token
  std::int64_t min_pixels = 0, max_pixels = 0;  // merged_blocks: of the resized image
  std::int64_t max_ratio = 200;                 // merged_blocks: an image may be so many times as long as wide
  std::int64_t height = 0, width = 0;           // square, tiles, middle: of each picture
  std::int64_t shortest_edge = 0;               // middle: of the image that it's cut from
  std::int64_t min_tiles = 1, max_tiles = 1;    // tiles: without the small picture of the whole
  std::int64_t tokens_a_picture = 0;            // square, tiles, middle
};

// Errors (data): a directory without such a file, a processor that tern doesn't compute, a field whose value would
// change what is computed, or that nobody knows.
[[nodiscard]] Result<ImageConfig> read_image_config(const std::filesystem::path& model);

}  // namespace tern::session
