// An image as models take it: eight bits of red, green and blue.
//
// Decoding follows transformers' load_image, that is Pillow's exif_transpose and convert("RGB"): the picture is
// upright, alpha and colours declared transparent are dropped (not blended), grey is repeated, CMYK is Adobe's
// (inverted), 16 bits keep their high byte, except grey ones, whose values above 255 are white. Colour profiles and
// gamma are not applied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tern::media {

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3]
};

// Checked from a file's header, before memory is taken for pixels.
struct ImageLimits {
  std::uint64_t max_bytes = std::uint64_t{64} << 20;  // of the file
  std::int64_t max_side = 65'535;                     // of width and of height
  std::int64_t max_pixels = 178'956'970;              // where Pillow refuses; half a gibibyte of pixels
};

// A JPEG, PNG or WebP file; of an animation the first picture. `name` is what errors call it. Errors (data): another
// format, beyond the limits, cut short, or damaged so that pixels would be guessed.
[[nodiscard]] Result<Image> decode_image(std::span<const std::byte> bytes, const std::string& name,
                                         const ImageLimits& limits = {});

}  // namespace tern::media
