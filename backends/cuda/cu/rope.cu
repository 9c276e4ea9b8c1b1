// rope. A block has a row, whose heads' chunks its threads share.
#include "backends/cuda/cu/rotate.cuh"

struct RopeSizes {
  HeadSizes head;
  long x[3], y[3];
};

template <int type>
DEVICE void rope_rows(const Tensor& x, const int* positions, const Tensor& cosines, const Tensor& sines,
                      const Tensor& y, const RopeSizes& s) {
  begin_overlapped();
  const long row = blockIdx.x;
  const int chunks = chunks_of(s.head), items = static_cast<int>(s.head.heads) * chunks;
  for (int item = threadIdx.x; item < items; item += blockDim.x) {
    const int head = item / chunks;
    const Chunk chunk = chunk_of(item % chunks, s.head);
    const long to = row * s.y[0] + head * s.y[1];
    const RawPairs raw = load_pairs<type>(x, row * s.x[0] + head * s.x[1], s.x[2], chunk);
    const Pairs angles = load_angles<type>(positions, cosines, sines, row, chunk, s.head);
    Pairs value = loaded_pairs<type>(raw);
    turn(value, chunk, angles, s.head.interleaved, s.head.inverse != 0 ? -1.0f : 1.0f);
    if (y.adds != 0) value = value + loaded_pairs<type>(load_pairs<type>(y, to, s.y[2], chunk));
    store_pairs<type>(y, to, s.y[2], chunk, value);
  }
}

#define ROPE(name, type)                                                                  \
  KERNEL_BOUNDED(name, 256, 3)                                                            \
  (Tensor x, const int* positions, Tensor cosines, Tensor sines, Tensor y, RopeSizes s) { \
    begin_overlapped();                                                                   \
    rope_rows<type>(x, positions, cosines, sines, y, s);                                  \
  }
ROPE(rope_f32, F32)
ROPE(rope_f16, F16)
ROPE(rope_bf16, BF16)
ROPE(rope_any, ANY)
