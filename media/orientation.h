// How a camera held its picture: the EXIF tag, and XMP's where there is none.
#pragma once

#include <cstddef>
#include <span>

#include "media/image.h"

namespace tern::media {

// The EXIF standard's 1 to 8; 1, upright, where the metadata say nothing, or nothing that can be read. `exif` begins
// with TIFF's header, or with "Exif\0\0" before it.
[[nodiscard]] int orientation_of(std::span<const std::byte> exif, std::span<const std::byte> xmp);

// The picture as it is to be seen.
[[nodiscard]] Image upright(Image image, int orientation);

}  // namespace tern::media
