// Rows of k and v into their blocks. Rows of block 0 are padding: they are left out.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/numbers.cuh"
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

// ---------------------------------------------------------------- codes of 8 bits (ops/kv_write.h)
struct CodedSide {
  KvSide side;
  Tensor scale;
  long scale_stride[3];
};

// What a row's codes are times: `most` are the bits of its largest magnitude.
DEVICE float scale_of(int dtype, uint most) {
  if (most >= 0x7f800000u) return __uint_as_float(0x7fc00000u);
  if (dtype == I8) return fmaxf(__uint_as_float(most) / 127.0f, 0x1p-126f);
  const int exponent = static_cast<int>(most >> 23) - 8 + ((most & 0x7fffffu) > 0x600000u ? 1 : 0);  // 448 = 1.75 * 2^8
  return __uint_as_float(static_cast<uint>(exponent > 1 ? exponent : 1) << 23);
}
DEVICE uchar code_of(int dtype, float x, float scale) {
  if (dtype == I8) return static_cast<uchar>(static_cast<int>(rintf(x / scale)));
  return encode_byte(x / scale, 3, 7, 0x7e, 0x7f);
}

// A warp has a row of a head, a lane W features of it at a time.
DEVICE void write_codes(const int* slots, const CodedSide& coded, const KvSizes& s) {
  const KvSide& side = coded.side;
  const int lane = threadIdx.x % 32;
  const long unit = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (unit >= s.rows * side.heads) return;
  long row, head;
  divide(unit, side.heads, s.rows * side.heads <= 0x7fffffffL, row, head);
  const long slot = slots[row * s.slots];
  if (slot < s.block_size || slot >= s.blocks * s.block_size) return;
  const long block = slot / s.block_size, offset = slot % s.block_size;
  const auto features_at = [&](long d) {
    const long at = row * side.from_stride[0] + head * side.from_stride[1] + d * side.from_stride[2];
    return fetch(side.from, at, side.from_stride[2], side.width - d);
  };
  uint most = 0;  // a NaN's bits are more than infinity's, and those more than any number's
  for (long d = lane * W; d < side.width; d += 32 * W) {
    const Floats x = features_at(d);
    UNROLL for (int i = 0; i < W; ++i) {
      const uint bits = __float_as_uint(x[i]) & 0x7fffffffu;
      most = bits > most ? bits : most;
    }
  }
  UNROLL for (int step = 16; step > 0; step /= 2) {
    const uint other = __shfl_xor_sync(0xffffffffu, most, step);
    most = other > most ? other : most;
  }
  const float scale = scale_of(side.to.dtype, most);
  if (lane == 0) {
    const long at = block * coded.scale_stride[0] + offset * coded.scale_stride[1] + head * coded.scale_stride[2];
    coded.scale.as<float>()[at] = scale;
  }
  const long place = block * side.to_stride[0] + offset * side.to_stride[1] + head * side.to_stride[2];
  for (long d = lane * W; d < side.width; d += 32 * W) {
    const Floats x = features_at(d);
    UNROLL for (int i = 0; i < W; ++i) {
      if (d + i >= side.width) continue;
      const uchar code = most >= 0x7f800000u ? 0 : code_of(side.to.dtype, x[i], scale);
      side.to.at[place + (d + i) * side.to_stride[3]] = code;
    }
  }
}

KERNEL(kv_write_codes)(const int* slots, CodedSide k, CodedSide v, KvSizes s) {
  begin_overlapped();
  if (blockIdx.y == 0) {
    write_codes(slots, k, s);
  } else {
    write_codes(slots, v, s);
  }
}
