// Which elements of a row dropout keeps: by bits of Philox from the row's key, or by a mask that is given.
#pragma once

#include "backends/cuda/cu/vectors.cuh"

// Neither keys nor a mask: nothing is dropped. The struct Dropping of dropping.h.
struct Dropping {
  const ulong* keys;
  const uchar* mask;
  long key, mask_row, mask_col;  // strides
  uint site;
  float rate;
  float factor;  // of what is kept

  DEVICE_MEMBER bool drops() const { return keys != nullptr || mask != nullptr; }
};

// W features of a row from column c on, a multiple of four; the first `left` count.
DEVICE Floats kept_of(const Dropping& drop, const Floats& values, long row, long c, long left) {
  Floats kept;
  if (drop.mask != nullptr) {
    UNROLL for (int i = 0; i < W; ++i) {
      const bool keep = i < left && drop.mask[row * drop.mask_row + (c + i) * drop.mask_col] != 0;
      kept[i] = keep ? values[i] * drop.factor : 0.0f;
    }
    return kept;
  }
  const ulong key = drop.keys[row * drop.key];
  UNROLL for (int four = 0; four < W; four += 4) {
    const Bits4 drawn = philox({static_cast<uint>((c + four) / 4), drop.site, 0, 0}, static_cast<uint>(key),
                               static_cast<uint>(key >> 32));
    const uint bits[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
    UNROLL for (int i = 0; i < 4; ++i) {
      const bool keep = static_cast<float>(bits[i] >> 8) * 0x1p-24f >= drop.rate;
      kept[four + i] = keep ? values[four + i] * drop.factor : 0.0f;
    }
  }
  return kept;
}
