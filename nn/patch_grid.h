// The patches of one image, or of one tile of it, as a vision tower sees them.
#pragma once

#include <cstdint>

namespace tern::nn {

struct PatchGrid {
  std::int64_t t = 1, h = 0, w = 0;  // patches along time, height and width, before any are merged
};

}  // namespace tern::nn
