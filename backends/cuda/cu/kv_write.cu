// Rows of k and v into their blocks. Rows of block 0 are padding: they are left out.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

// Of k or of v.
struct KvSide {
  Tensor from, to;
  long heads, width, chunks;  // chunks of W features
  long from_stride[3], to_stride[4];
  long bytes;  // of an element that is copied; 0: floats are rounded
};
struct KvSizes {
  long rows, blocks, block_size, slots;
};

// A thread has W features of a head of a row.
DEVICE void write_rows(const int* slots, const KvSide& side, const KvSizes& s) {
  long unit, chunk, row, head;
  if (!find_part(s.rows * side.heads, side.chunks, unit, chunk)) return;
  divide(unit, side.heads, s.rows * side.heads <= 0x7fffffffL, row, head);
  const long feature = chunk * W;
  const long slot = slots[row * s.slots];
  if (slot < s.block_size || slot >= s.blocks * s.block_size) return;
  const long source = row * side.from_stride[0] + head * side.from_stride[1] + feature * side.from_stride[2];
  const long place = slot / s.block_size * side.to_stride[0] + slot % s.block_size * side.to_stride[1] +
                     head * side.to_stride[2] + feature * side.to_stride[3];
  const long left = side.width - feature;
  if (side.bytes == 0) {
    return spread(side.to, place, side.to_stride[3], left, fetch(side.from, source, side.from_stride[2], left));
  }
  for (int i = 0; i < W && i < left; ++i) {
    const uchar* const one = side.from.at + (source + i * side.from_stride[2]) * side.bytes;
    uchar* const other = side.to.at + (place + i * side.to_stride[3]) * side.bytes;
    for (int byte = 0; byte < side.bytes; ++byte) other[byte] = one[byte];
  }
}

// blockIdx.y: 0 writes k, 1 writes v.
KERNEL(kv_write)(const int* slots, KvSide k, KvSide v, KvSizes s) {
  begin_overlapped();
  if (blockIdx.y == 0) {
    write_rows(slots, k, s);
  } else {
    write_rows(slots, v, s);
  }
}
