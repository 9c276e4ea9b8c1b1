// Bytes as the base64 of an image, and of a data: URL. An Error, or a picture with all its pixels.
#include <cstdint>
#include <string>

#include "memory_file.h"
#include "session/image_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tern::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const tern::media::ImageLimits limits{.max_bytes = 1 << 20, .max_side = 4096, .max_pixels = 1 << 16};
  for (const char* before : {"data:", "data:image/png;base64,"}) {
    const auto image = tern::session::read_image(std::string(before).append(text), limits);
    if (image) {
      require(image->pixels.size() == static_cast<std::size_t>(image->width * image->height * 3),
              "three bytes a pixel");
    } else {
      require(!image.error().line().empty(), "an error says something");
    }
  }
  return 0;
}
