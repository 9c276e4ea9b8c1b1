// Bytes as an image file. An Error, or a picture with all its pixels, the same each time: none is what memory held
// before.
#include <cstdint>
#include <string>

#include "media/resize.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tern::fuzz::require;
  const auto bytes = std::as_bytes(std::span(data, size));
  const tern::media::ImageLimits limits{.max_bytes = 1 << 20, .max_side = 4096, .max_pixels = 1 << 18};
  const auto image = tern::media::decode_image(bytes, "f", limits);
  if (!image) {
    require(!image.error().line().empty(), "an error says something");
    return 0;
  }
  require(image->width > 0 && image->height > 0, "a picture has pixels");
  require(image->width * image->height <= limits.max_pixels, "limits hold");
  require(image->pixels.size() == static_cast<std::size_t>(image->width * image->height * 3), "three bytes a pixel");
  require(tern::media::decode_image(bytes, "f", limits)->pixels == image->pixels, "the same bytes, the same pixels");
  const auto small = tern::media::resize(*image, 7, 5, tern::media::Filter::bicubic);
  require(small.pixels.size() == 7 * 5 * 3, "the size that was asked");
  return 0;
}
