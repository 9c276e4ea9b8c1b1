// Copies between any dtypes and strides.
#include "backends/cuda/cu/dense.cuh"
#include "backends/cuda/cu/numbers.cuh"

KERNEL(cast_floats)(Tensor x, Tensor y, Dense dense) {
  const Tensor of[] = {y, x};
  dense_over<2, 2u, 1u>(dense, of, [](float* v) { v[0] = v[1]; });
}

KERNEL(cast_any)(Tensor x, Tensor y, Walk walk) {
  walk_over<2>(walk, [&](const long* at) {
    store_number(y.dtype, y.adds != 0, y.at, at[0], load_number(x.dtype, x.at, at[1]));
  });
}

// ---------------------------------------------------------------- elements of one size, bits kept
KERNEL(copy_bits)(const uchar* x, uchar* y, Walk walk, int bytes) {
  walk_over<2>(walk, [&](const long* at) {
    if (bytes == 1) {
      y[at[0]] = x[at[1]];
    } else if (bytes == 2) {
      reinterpret_cast<ushort*>(y)[at[0]] = reinterpret_cast<const ushort*>(x)[at[1]];
    } else if (bytes == 4) {
      reinterpret_cast<uint*>(y)[at[0]] = reinterpret_cast<const uint*>(x)[at[1]];
    } else {
      reinterpret_cast<ulong*>(y)[at[0]] = reinterpret_cast<const ulong*>(x)[at[1]];
    }
  });
}
// Rows whose elements are 16 bytes, each of which a thread has.
KERNEL(copy_wide)(const uchar* x, uchar* y, Walk walk, long rows) {
  long row, part, begin[2];
  if (!find_part(rows, walk.inner, row, part)) return;
  rows_of(walk, row, begin);
  store_quad(y + (begin[0] + part) * 16, load_quad(x + (begin[1] + part) * 16));
}

// ---------------------------------------------------------------- transposed
// y's elements are neighbours along dimension a, x's along b; the others in `shape` are outside of both.
struct Transposed {
  long a, b;        // sizes
  long x_a, y_b;    // strides
  long tiles_a, tiles_b;
  long rank;
  long shape[4], x[4], y[4];
  long outer;
};

// Moves a tile through shared memory: read(from) along b, write(to, what was read) along a.
template <int side, typename Element, typename Read, typename Write>
DEVICE void transpose(const Transposed& t, Element* tile, Read&& read, Write&& write) {
  const long tiles = t.tiles_a * t.tiles_b;
  long outer = blockIdx.x / tiles, x = 0, y = 0;
  const long at = blockIdx.x % tiles, first_a = at / t.tiles_b * side, first_b = at % t.tiles_b * side;
  for (int d = static_cast<int>(t.rank) - 1; d >= 0; --d) {
    x += outer % t.shape[d] * t.x[d];
    y += outer % t.shape[d] * t.y[d];
    outer /= t.shape[d];
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;  // of 8
  for (int i = warp; i < side; i += 8) {
    for (int j = lane; j < side; j += 32) {
      const long a = first_a + i, b = first_b + j;
      if (a < t.a && b < t.b) tile[i * (side + 1) + j] = read(x + a * t.x_a + b);
    }
  }
  __syncthreads();
  for (int j = warp; j < side; j += 8) {
    for (int i = lane; i < side; i += 32) {
      const long a = first_a + i, b = first_b + j;
      if (a < t.a && b < t.b) write(y + a + b * t.y_b, tile[i * (side + 1) + j]);
    }
  }
}

#define TRANSPOSE(bytes, side, Element)                                                                        \
  KERNEL_BOUNDED(transpose_##bytes, 256, 4)(const Element* x, Element* y, Transposed t) {                      \
    SHARED Element tile[side * (side + 1)];                                                                    \
    transpose<side>(t, tile, [&](long at) { return x[at]; }, [&](long at, Element value) { y[at] = value; });  \
  }
TRANSPOSE(1, 64, uchar)
TRANSPOSE(2, 64, ushort)
TRANSPOSE(4, 32, uint)
TRANSPOSE(8, 32, ulong)

KERNEL_BOUNDED(transpose_floats, 256, 4)(Tensor x, Tensor y, Transposed t) {
  SHARED float tile[32 * 33];
  transpose<32>(t, tile, [&](long at) { return get(x, at); }, [&](long at, float value) { put_or_add(y, at, value); });
}
