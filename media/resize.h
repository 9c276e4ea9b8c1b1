// Another size, with the arithmetic of torchvision.transforms.v2.functional.resize(antialias=True) of bytes on a CPU,
// to the bit: PyTorch's separable filter, whose weights are 16-bit integers. Those of Pillow's Image.resize have 22
// bits behind the point, and what comes out differs by one here and there; as it does of tall images, of which Pillow
// takes the columns first.
#pragma once

#include "media/image.h"

namespace tern::media {

enum class Filter { bilinear, bicubic };
enum class Arithmetic { torchvision, pillow };

// A copy where the size is the picture's own.
[[nodiscard]] Image resize(const Image& image, std::int64_t width, std::int64_t height, Filter filter,
                           Arithmetic arithmetic = Arithmetic::torchvision);

// The part of `width` x `height` pixels from (x, y) on, as much of it as lies inside the picture.
struct Box {
  std::int64_t x = 0, y = 0, width = 0, height = 0;
};
[[nodiscard]] Image crop(const Image& image, const Box& box);

}  // namespace tern::media
