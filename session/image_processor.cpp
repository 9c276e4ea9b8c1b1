#include "session/image_processor.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace tern::session {
namespace {

// Every value that a byte of a colour becomes: (byte - mean) / std, both scaled to bytes first, in single precision as
// torch computes it.
class Normalised {
 public:
  explicit Normalised(const ImageConfig& config) {
    const auto factor = static_cast<float>(config.rescale_factor);
    const auto scale = config.rescales ? static_cast<float>(1.0 / config.rescale_factor) : 1.0F;
    for (std::size_t c = 0; c < 3; ++c) {
      const float mean = static_cast<float>(config.mean[c]) * scale;
      const float std = static_cast<float>(config.std[c]) * scale;
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const auto value = static_cast<float>(byte);
        table_[c][byte] = config.normalises ? (value - mean) / std : config.rescales ? value * factor : value;
      }
    }
  }
  [[nodiscard]] float at(std::size_t colour, std::uint8_t byte) const { return table_[colour][byte]; }

 private:
  std::array<std::array<float, 256>, 3> table_{};
};

// Cuts pictures into patches, [c, t, kh, kw] each: the frames of a still image are equal.
class Cutter {
 public:
  Cutter(const ImageConfig& config, ImagePatches& out) : config_(config), normalised_(config), out_(out) {}

  // Row by row of blocks of merge_size x merge_size patches, and so within each.
  void cut(const media::Image& image) {
    const std::int64_t side = config_.patch_size * config_.merge_size;
    for (std::int64_t y = 0; y < image.height; y += side) {
      for (std::int64_t x = 0; x < image.width; x += side) block(image, y, x);
    }
    out_.grids.push_back({1, image.height / config_.patch_size, image.width / config_.patch_size});
  }

 private:
  void block(const media::Image& image, std::int64_t y, std::int64_t x) {
    for (std::int64_t row = 0; row < config_.merge_size; ++row) {
      for (std::int64_t column = 0; column < config_.merge_size; ++column) {
        patch(image, y + row * config_.patch_size, x + column * config_.patch_size);
      }
    }
  }
  void patch(const media::Image& image, std::int64_t y, std::int64_t x) {
    for (std::size_t colour = 0; colour < 3; ++colour) {
      for (std::int64_t frame = 0; frame < config_.temporal_patch_size; ++frame) {
        for (std::int64_t row = 0; row < config_.patch_size; ++row) {
          const std::uint8_t* from = image.pixels.data() + ((y + row) * image.width + x) * 3;
          for (std::int64_t column = 0; column < config_.patch_size; ++column) {
            out_.patches.push_back(normalised_.at(colour, from[column * 3 + static_cast<std::int64_t>(colour)]));
          }
        }
      }
    }
  }

  const ImageConfig& config_;
  Normalised normalised_;
  ImagePatches& out_;
};

void reserve(const ImageConfig& config, std::int64_t pixels, ImagePatches& out) {
  out.patches.reserve(static_cast<std::size_t>(pixels * 3 * config.temporal_patch_size));
}

// What a processor that resizes nothing takes.
void require_size(const media::Image& image, bool fits, const std::string& expected, const std::string& name) {
  if (fits) return;
  throw Failure(data_error(name, cat(expected, ", as the model's processor resizes none (do_resize is false)"),
                           cat(image.width, " x ", image.height), "bring it to that size, or take do_resize out"));
}

void cut_blocks(const ImageConfig& config, const media::Image& image, const std::string& name, ImagePatches& out) {
  const std::int64_t side = config.patch_size * config.merge_size;
  require_size(image, config.resizes || (image.width % side == 0 && image.height % side == 0),
               cat("an image whose sides are multiples of ", side, " pixels"), name);
  const ImageSize own{image.height, image.width};
  const ImageSize size = config.resizes ? block_size(config, own, name) : own;
  reserve(config, size.height * size.width, out);
  Cutter(config, out).cut(media::resize(image, size.width, size.height, config.filter));
  const nn::PatchGrid& grid = out.grids.front();
  out.tokens = grid.h * grid.w / (config.merge_size * config.merge_size);
}

void cut_tiles(const ImageConfig& config, const media::Image& image, ImagePatches& out) {
  const ImageSize grid = tile_grid(config, {image.height, image.width});
  const std::int64_t tiles = grid.height * grid.width;
  reserve(config, (tiles + 1) * config.height * config.width, out);
  Cutter cutter(config, out);
  const media::Image canvas =
      media::resize(image, grid.width * config.width, grid.height * config.height, config.filter);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    cutter.cut(media::crop(
        canvas, {tile % grid.width * config.width, tile / grid.width * config.height, config.width, config.height}));
  }
  if (tiles != 1) cutter.cut(media::resize(image, config.width, config.height, config.filter));
}

// The shorter side gets its length, the longer one the image's shape; what is cut is as far from both ends.
void cut_middle(const ImageConfig& config, const media::Image& image, ImagePatches& out) {
  const std::int64_t shorter = std::min(image.width, image.height);
  const auto scaled = [&](std::int64_t side) {
    return side == shorter ? config.shortest_edge
                           : static_cast<std::int64_t>(static_cast<double>(config.shortest_edge * side) /
                                                       static_cast<double>(shorter));
  };
  const media::Image resized = media::resize(image, scaled(image.width), scaled(image.height), config.filter);
  reserve(config, config.height * config.width, out);
  Cutter(config, out)
      .cut(media::crop(resized, {(resized.width - config.width) / 2, (resized.height - config.height) / 2, config.width,
                                 config.height}));
}

}  // namespace

ImageSize block_size(const ImageConfig& config, ImageSize image, const std::string& name) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const double shape = std::max(height, width) / std::min(height, width);
  if (shape > static_cast<double>(config.max_ratio)) {
    throw Failure(data_error(name, cat("an image at most ", config.max_ratio, " times as long as wide"),
                             cat(image.width, " x ", image.height), "cut it into pieces"));
  }
  const auto factor = static_cast<double>(config.patch_size * config.merge_size);
  const auto least = static_cast<double>(config.min_pixels), most = static_cast<double>(config.max_pixels);
  double out_height = std::nearbyint(height / factor) * factor;  // a half goes to the even neighbour
  double out_width = std::nearbyint(width / factor) * factor;
  if (out_height * out_width > most) {
    const double beta = std::sqrt(height * width / most);
    out_height = std::max(factor, std::floor(height / beta / factor) * factor);
    out_width = std::max(factor, std::floor(width / beta / factor) * factor);
  } else if (out_height * out_width < least) {
    const double beta = std::sqrt(least / (height * width));
    out_height = std::ceil(height * beta / factor) * factor;
    out_width = std::ceil(width * beta / factor) * factor;
  }
  return {static_cast<std::int64_t>(out_height), static_cast<std::int64_t>(out_width)};
}

// The grid whose shape is nearest to the image's; of equally near ones the larger, where the image has pixels for half
// of it.
ImageSize tile_grid(const ImageConfig& config, ImageSize image) {
  std::vector<ImageSize> grids;
  for (std::int64_t columns = 1; columns <= config.max_tiles; ++columns) {
    for (std::int64_t rows = 1; rows * columns <= config.max_tiles; ++rows) {
      if (rows * columns >= config.min_tiles) grids.push_back({rows, columns});
    }
  }
  std::stable_sort(grids.begin(), grids.end(),
                   [](ImageSize a, ImageSize b) { return a.height * a.width < b.height * b.width; });
  const double shape = static_cast<double>(image.width) / static_cast<double>(image.height);
  const auto area = static_cast<double>(image.height * image.width);
  ImageSize best{1, 1};
  double nearest = INFINITY;
  for (const ImageSize& grid : grids) {
    const double distance = std::abs(shape - static_cast<double>(grid.width) / static_cast<double>(grid.height));
    const auto filled = static_cast<double>(config.height * config.width * grid.height * grid.width);
    if (distance < nearest || (distance == nearest && area > 0.5 * filled)) best = grid;
    nearest = std::min(nearest, distance);
  }
  return best;
}

Result<ImagePatches> make_patches(const ImageConfig& config, const media::Image& image, const std::string& name) {
  return catching([&] {
    ImagePatches out;
    if (config.cut == ImageCut::merged_blocks) {
      cut_blocks(config, image, name, out);
    } else if (config.cut == ImageCut::tiles) {
      cut_tiles(config, image, out);
      out.tokens = config.tokens_a_picture * static_cast<std::int64_t>(out.grids.size());
    } else if (config.cut == ImageCut::middle) {
      cut_middle(config, image, out);
      out.tokens = config.tokens_a_picture;
    } else {
      require_size(image, config.resizes || (image.width == config.width && image.height == config.height),
                   cat("an image of ", config.width, " x ", config.height, " pixels"), name);
      reserve(config, config.height * config.width, out);
      Cutter(config, out).cut(media::resize(image, config.width, config.height, config.filter));
      out.tokens = config.tokens_a_picture;
    }
    return out;
  });
}

}  // namespace tern::session
