#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct DropoutSizes {
  long rows, width, chunks;
  long x[2], mask[2], y[2], key;
};

// A thread has W features of a row: two counters' bits.
KERNEL(dropout)(Tensor x, const ulong* keys, const uchar* mask, Tensor y, DropoutSizes s, uint site, float rate,
                float factor) {
  long row, chunk;
  if (!find_part(s.rows, s.chunks, row, chunk)) return;
  const long c = chunk * W, left = s.width - c;
  const Floats values = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
  Floats kept;
  if (mask != nullptr) {
    UNROLL for (int i = 0; i < W; ++i) {
      const bool keep = i < left && mask[row * s.mask[0] + (c + i) * s.mask[1]] != 0;
      kept[i] = keep ? values[i] * factor : 0.0f;
    }
  } else {
    const ulong key = keys[row * s.key];
    UNROLL for (int four = 0; four < W; four += 4) {
      const Bits4 drawn = philox({static_cast<uint>((c + four) / 4), site, 0, 0}, static_cast<uint>(key),
                                 static_cast<uint>(key >> 32));
      const uint bits[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
      UNROLL for (int i = 0; i < 4; ++i) {
        const bool keep = static_cast<float>(bits[i] >> 8) * 0x1p-24f >= rate;
        kept[four + i] = keep ? values[four + i] * factor : 0.0f;
      }
    }
  }
  const long to = row * s.y[0] + c * s.y[1];
  if (y.adds != 0) kept = fetch(y, to, s.y[1], left) + kept;
  spread(y, to, s.y[1], left, kept);
}
