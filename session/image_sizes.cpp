#include "session/image_sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/strings.h"

namespace tern::session {
namespace {

std::optional<std::int64_t> variable(const char* name) {
  const char* given = std::getenv(name);
  if (given == nullptr || *given == '\0') return std::nullopt;
  const std::string_view text = given;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (is_whole && number >= 1 && number <= kLargestArea) return number;
  throw Failure(usage_error(cat(name, " is ", given, ", and it is an integer from 1 to ", kLargestArea),
                            "change it, or take it out of the environment"));
}

// Of pictures of one size.
std::int64_t patches_of_picture(const ImageConfig& config) {
  return config.height * config.width / (config.patch_size * config.patch_size);
}

// The largest area that rounding `area` pixels makes, whose sides move by up to `most` pixels each: the longest shape
// moves most.
double rounded_area(double area, double ratio, double most) {
  return area + most * std::sqrt(area) * (std::sqrt(ratio) + 1 / std::sqrt(ratio)) + most * most;
}

std::int64_t most_of_blocks(const ImageConfig& config, std::int64_t max_pixels) {
  const auto factor = static_cast<double>(config.patch_size * config.merge_size);
  const auto ratio = static_cast<double>(config.max_ratio);
  // Of an image that is too large the shorter side stays at least a block (block_size).
  double area = std::max(static_cast<double>(config.max_pixels),
                         factor * std::sqrt(ratio * static_cast<double>(config.max_pixels)));
  if (max_pixels > 0) area = std::min(area, rounded_area(static_cast<double>(max_pixels), ratio, factor / 2));
  area = std::max(area, rounded_area(static_cast<double>(config.min_pixels), ratio, factor));
  const std::int64_t block = config.patch_size * config.merge_size;
  return static_cast<std::int64_t>(area) / (block * block) * config.merge_size * config.merge_size;
}

}  // namespace

bool ImageSizes::concern_blocks() const {
  ImageSizes of_all_models;
  of_all_models.max_pixels = max_pixels;
  return *this != of_all_models;
}

Result<ImageSizes> image_sizes_of_environment(std::int64_t max_pixels) {
  return catching([&] {
    ImageSizes sizes;
    sizes.max_pixels = max_pixels;
    sizes.min_tokens = variable("IMAGE_MIN_TOKEN_NUM");
    sizes.max_tokens = variable("IMAGE_MAX_TOKEN_NUM");
    sizes.min_pixels = variable("MIN_PIXELS");
    sizes.most_pixels = variable("MAX_PIXELS");
    sizes.max_ratio = variable("MAX_RATIO");
    sizes.factor = variable("IMAGE_FACTOR");
    sizes.merge_size = variable("SPATIAL_MERGE_SIZE");
    return sizes;
  });
}

Result<ImageConfig> with_sizes(ImageConfig config, const ImageSizes& sizes) {
  return catching([&] {
    if (config.cut != ImageCut::merged_blocks) return config;
    const std::int64_t factor = config.patch_size * config.merge_size;
    const auto require = [](const char* name, const std::optional<std::int64_t>& given, std::int64_t own) {
      if (!given || *given == own) return;
      throw Failure(
          usage_error(cat(name, " is ", *given, ", and the model's own is ", own), "take it out of the environment"));
    };
    require("IMAGE_FACTOR", sizes.factor, factor);
    require("SPATIAL_MERGE_SIZE", sizes.merge_size, config.merge_size);
    const auto limit = [&](const std::optional<std::int64_t>& tokens, const std::optional<std::int64_t>& pixels,
                           std::int64_t own) {
      if (!tokens && !pixels) return own;
      const std::int64_t given = tokens.value_or(pixels.value_or(0) / (factor * factor));
      return std::min(std::max<std::int64_t>(given, 1) * factor * factor, kLargestArea);
    };
    config.min_pixels = limit(sizes.min_tokens, sizes.min_pixels, config.min_pixels);
    config.max_pixels = limit(sizes.max_tokens, sizes.most_pixels, config.max_pixels);
    config.max_ratio = sizes.max_ratio.value_or(config.max_ratio);
    if (config.max_pixels < config.min_pixels) {
      throw Failure(usage_error(cat("the environment asks for images of ", config.min_pixels, " to ", config.max_pixels,
                                    " pixels, and a token is ", factor, " x ", factor),
                                "change MIN_PIXELS and MAX_PIXELS, or IMAGE_MIN_TOKEN_NUM and IMAGE_MAX_TOKEN_NUM"));
    }
    return config;
  });
}

media::Image shrunk(media::Image image, std::int64_t max_pixels, const std::string& name) {
  if (max_pixels <= 0 || image.width * image.height <= max_pixels) return image;
  const double shape = static_cast<double>(image.width) / static_cast<double>(image.height);
  const double height = std::sqrt(static_cast<double>(max_pixels) / shape);
  const auto rows = static_cast<std::int64_t>(height), columns = static_cast<std::int64_t>(height * shape);
  if (rows < 1 || columns < 1) {
    throw Failure(data_error(name, cat("an image of which ", max_pixels, " pixels leave both sides one"),
                             cat(image.width, " x ", image.height), "raise --max_pixels, or cut it into pieces"));
  }
  return media::resize(image, columns, rows, media::Filter::bilinear, media::Arithmetic::pillow);
}

std::int64_t most_patches(const ImageConfig& config, std::int64_t max_pixels) {
  if (config.cut == ImageCut::merged_blocks) {
    return config.resizes ? most_of_blocks(config, max_pixels) : std::numeric_limits<std::int64_t>::max();
  }
  const std::int64_t pictures = config.max_tiles > 1 ? config.max_tiles + 1 : 1;
  return patches_of_picture(config) * pictures;
}

std::int64_t most_patches_of_tokens(const ImageConfig& config, std::int64_t tokens) {
  if (config.cut == ImageCut::merged_blocks) return tokens * config.merge_size * config.merge_size;
  return tokens / config.tokens_a_picture * patches_of_picture(config);
}

}  // namespace tern::session
