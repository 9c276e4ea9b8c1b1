// What the formats of blocks read alike.
#pragma once

#include "base/half.h"
#include "checkpoint/block_formats.h"

namespace tern::checkpoint::blocks {

// The fp16 number of the two bytes at `at`, little-endian.
[[nodiscard]] inline float half_at(const Byte* at) {
  return fp16_to_float(static_cast<std::uint16_t>(at[0] | (at[1] << 8)));
}

// Code `index` of 4 bits, the lower half of a byte first.
[[nodiscard]] inline int nibble(const Byte* bytes, int index) { return (bytes[index / 2] >> (4 * (index % 2))) & 15; }

}  // namespace tern::checkpoint::blocks
