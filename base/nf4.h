// The 16 levels of nf4: quantiles of a normal distribution between -1 and 1 (QLoRA, arXiv 2305.14314, appendix E); and
// those of bitsandbytes' fp4, in the order of their codes.
#pragma once

#include <array>
#include <cstdint>

#include "tern/accel_types.h"

namespace tern {

inline constexpr std::array<float, 16> kNf4Levels = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};
inline constexpr std::array<float, 16> kFp4Levels = {
    0.0F, 0.0625F / 12.0F,  8.0F / 12.0F,  1.0F,  4.0F / 12.0F,  6.0F / 12.0F,  2.0F / 12.0F,  3.0F / 12.0F,
    0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -6.0F / 12.0F, -2.0F / 12.0F, -3.0F / 12.0F,
};

// Whether two codes share a byte, and each is one of 16 levels times the scale of a group of all elements.
[[nodiscard]] constexpr bool is_levels4(tern_packing packing) {
  return packing == TERN_PACK_NF4 || packing == TERN_PACK_FP4;
}
[[nodiscard]] constexpr const std::array<float, 16>& levels4(tern_packing packing) {
  return packing == TERN_PACK_FP4 ? kFp4Levels : kNf4Levels;
}

// Double quantised scales: as many levels, and as many scales share one of theirs.
inline constexpr std::int64_t kNf4ScaleLevels = 256;

}  // namespace tern
