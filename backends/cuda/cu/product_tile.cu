// Products by fp32 arithmetic: tiles of any strides and dtypes, whose sums each go from the first to the last; few rows
// by warps that share sums; and what puts split sums together.
#include "backends/cuda/cu/product.cuh"

namespace {

// What a side is, and how a block reads it.
struct TileSide {
  const uchar* at;
  long origin, row, col, sub;
  int parts, sum_parts, type, round;
  bool at_once;  // groups of four may be read at once
  bool along;    // they are neighbours along the sum, else across
  DEVICE_MEMBER bool plain() const { return parts == 1 && sum_parts == 1; }
  DEVICE_MEMBER float element(int i, int c) const {
    const long place = origin + row_at(i, row, sub, parts) + row_at(c, col, sub, sum_parts);
    return round_float(round, load_float(type, at, place));
  }
};
DEVICE TileSide side_a(const Product& p, const Work& work) {
  return {p.a,     a_origin(p, work), p.a_row,  p.a_col, p.a_sub,         p.parts,
          p.sum_parts, p.a_type,      p.round,  p.a_vector != 0, p.a_row != 1};
}
DEVICE TileSide side_b(const Product& p, const Work& work) {
  return {p.b,     work.batch * p.b_batch, p.b_row,  p.b_col, p.b_sub,         1,
          p.sum_parts, p.b_type,      p.round,  p.b_vector != 0, p.b_row != 1};
}

// Four of a side, the e-th group of a tile of `rows` by `depth`.
template <int rows, int depth>
DEVICE Four group_of(const TileSide& side, int e, int first, int end, int begin, int end_k) {
  const int i = first + (side.along ? e / (depth / 4) : e % (rows / 4) * 4);
  const int c = begin + (side.along ? e % (depth / 4) * 4 : e / (rows / 4));
  const bool there = i < end && c < end_k;
  const int count = !there ? 0 : side.along ? end_k - c : end - i;
  if (side.plain()) {
    const long at = there ? side.origin + i * side.row + c * side.col : 0;
    return load_some(side.type, side.round, side.at, at, side.along ? side.col : side.row, count, side.at_once);
  }
  Four four;
  UNROLL for (int l = 0; l < 4; ++l) {
    four.x[l] = l < count ? side.element(side.along ? i : i + l, side.along ? c + l : c) : 0.0f;
  }
  return four;
}
// Into the tile [depth][rows + 4].
template <int rows, int depth>
DEVICE void keep_group(bool along, int e, float* tile, const Four& four) {
  constexpr int kStride = rows + 4;
  if (along) {
    const int i = e / (depth / 4), c = e % (depth / 4) * 4;
    UNROLL for (int l = 0; l < 4; ++l) tile[(c + l) * kStride + i] = four.x[l];
  } else {
    const int i = e % (rows / 4) * 4, c = e / (rows / 4);
    store_four(F32, reinterpret_cast<uchar*>(tile), c * kStride + i, four);
  }
}

// `rows` x `columns` by 256 threads, of which each has `quads` x `quads` of 4 x 4.
template <int rows, int columns, int quads>
DEVICE void product_tile(const Product& p, Words4* a_tile, Words4* b_tile) {
  constexpr int kDepth = 16, kThreads = 256;
  constexpr int kA = rows * kDepth / 4 / kThreads, kB = columns * kDepth / 4 / kThreads;  // groups of a thread
  constexpr int kStrideA = rows + 4, kStrideB = columns + 4;
  begin_overlapped();
  const Work work = find_work<rows, columns>(p);
  if (work.first >= work.end) return;
  if (work.batch < 0) {
    give_zeros<columns>(p, work);
    return;
  }
  const TileSide a = side_a(p, work), b = side_b(p, work);
  const int thread = threadIdx.x, x = thread % 16 * 4, y = thread / 16 * 4;
  float sums[quads * 4][quads * 4];
  UNROLL for (int i = 0; i < quads * 4; ++i) {
    UNROLL for (int j = 0; j < quads * 4; ++j) sums[i][j] = 0.0f;
  }
  Four from_a[kA], from_b[kB];
  const auto load = [&](int c) {
    UNROLL for (int g = 0; g < kA; ++g) {
      from_a[g] = group_of<rows, kDepth>(a, thread + g * kThreads, work.first, work.end, c, work.end_k);
    }
    UNROLL for (int g = 0; g < kB; ++g) {
      from_b[g] = group_of<columns, kDepth>(b, thread + g * kThreads, work.j, p.n, c, work.end_k);
    }
  };
  if (work.begin < work.end_k) load(work.begin);
  int stage = 0;
  for (int c = work.begin; c < work.end_k; c += kDepth, stage ^= 1) {
    float* const a_now = reinterpret_cast<float*>(a_tile) + stage * kDepth * kStrideA;
    float* const b_now = reinterpret_cast<float*>(b_tile) + stage * kDepth * kStrideB;
    UNROLL for (int g = 0; g < kA; ++g) keep_group<rows, kDepth>(a.along, thread + g * kThreads, a_now, from_a[g]);
    UNROLL for (int g = 0; g < kB; ++g) keep_group<columns, kDepth>(b.along, thread + g * kThreads, b_now, from_b[g]);
    __syncthreads();
    if (c + kDepth < work.end_k) load(c + kDepth);
    UNROLL for (int step = 0; step < kDepth; ++step) {
      float left[quads * 4], right[quads * 4];
      UNROLL for (int q = 0; q < quads; ++q) {
        const Four above = load_four(F32, reinterpret_cast<const uchar*>(a_now), step * kStrideA + q * 64 + y);
        const Four beside = load_four(F32, reinterpret_cast<const uchar*>(b_now), step * kStrideB + q * 64 + x);
        UNROLL for (int l = 0; l < 4; ++l) left[q * 4 + l] = above.x[l];
        UNROLL for (int l = 0; l < 4; ++l) right[q * 4 + l] = beside.x[l];
      }
      UNROLL for (int i = 0; i < quads * 4; ++i) {
        UNROLL for (int j = 0; j < quads * 4; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
      }
    }
  }
  UNROLL for (int q = 0; q < quads; ++q) {
    const int j = work.j + q * 64 + x;
    const Four bias = bias_of_columns(p, work, j);
    UNROLL for (int i = 0; i < quads * 4; ++i) {
      const int row = work.first + i / 4 * 64 + y + i % 4;
      if (row >= work.end) continue;
      const Four four = {{sums[i][q * 4], sums[i][q * 4 + 1], sums[i][q * 4 + 2], sums[i][q * 4 + 3]}};
      if (gives_whole(p, j)) {
        give_whole(p, work, row, j, four, bias);
      } else {
        UNROLL for (int l = 0; l < 4; ++l) {
          if (j + l < p.n) give_sum(p, work, row, j + l, four.x[l]);
        }
      }
    }
  }
}

// `rows` of a by one of b to each warp: lanes share the sum.
template <int rows>
DEVICE void product_dot(const Product& p) {
  constexpr int kWarps = 4;
  begin_overlapped();
  const Work work = find_work<rows, kWarps>(p);
  const int lane = threadIdx.x % 32, j = work.j + static_cast<int>(threadIdx.x) / 32;
  if (j >= p.n) return;
  const long a_at = a_origin(p, work), b_at = work.batch * p.b_batch + j * p.b_row;
  float sums[rows];
  UNROLL for (int i = 0; i < rows; ++i) sums[i] = 0.0f;
  UNROLL_4 for (int c = work.begin + lane * 4; c < work.end_k; c += 128) {
    const Four right = load_some(p.b_type, p.round, p.b, b_at + c * p.b_col, p.b_col, work.end_k - c, p.b_vector != 0);
    UNROLL for (int i = 0; i < rows; ++i) {
      const int row = work.first + i;
      const long at = a_at + (row < work.end ? row : work.first) * p.a_row + c * p.a_col;
      const Four left = load_some(p.a_type, p.round, p.a, at, p.a_col, work.end_k - c, p.a_vector != 0);
      UNROLL for (int l = 0; l < 4; ++l) sums[i] = fmaf(left.x[l], right.x[l], sums[i]);
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) {
    const float sum = warp_sum(sums[i]);
    if (lane == 0 && work.first + i < work.end) give_sum(p, work, work.first + i, j, sum);
  }
}

}  // namespace

KERNEL_BOUNDED(product_tile_128, 256, 1)(const Product p) {
  SHARED Words4 a_tile[2 * 16 * 132 / 4];
  SHARED Words4 b_tile[2 * 16 * 132 / 4];
  product_tile<128, 128, 2>(p, a_tile, b_tile);
}
KERNEL_BOUNDED(product_tile_64, 256, 2)(const Product p) {
  SHARED Words4 a_tile[2 * 16 * 68 / 4];
  SHARED Words4 b_tile[2 * 16 * 68 / 4];
  product_tile<64, 64, 1>(p, a_tile, b_tile);
}
KERNEL(product_dot_1)(const Product p) { product_dot<1>(p); }
KERNEL(product_dot_4)(const Product p) { product_dot<4>(p); }

// Sums of the splits, from the first to the last; one result to a thread.
KERNEL(product_combine)(const Product p, const float* partials, int splits) {
  begin_overlapped();
  const long results = static_cast<long>(p.batch) * p.m * p.n;
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= results) return;
  float sum = 0.0f;
  UNROLL_4 for (int s = 0; s < splits; ++s) sum += partials[s * results + at];
  const long row = at / p.n;
  const int batch = static_cast<int>(row / p.m);
  finish_sum(p, batch, batch * p.out_batch, static_cast<int>(row % p.m), static_cast<int>(at % p.n), sum);
}
