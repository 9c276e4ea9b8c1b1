// Products by the matrix units: tiles of both sides go through shared memory in a ring of stages, filled by copies
// beside the arithmetic. Every sum is a chain of the same steps of 16, whatever the tile: a result has the same bits in
// all of these kernels.
#pragma once

#include "backends/cuda/cu/product.cuh"

constexpr int kDepth = 32;  // of the sum that a stage has
constexpr int kStages = 4;

template <int type>
DEVICE void multiply(float (&d)[4], const uint (&a)[4], const uint (&b)[2]) {
  if constexpr (type == BF16) {
    mma_bf16(d, a, b);
  } else {
    mma_f16(d, a, b);
  }
}
template <int type>
DEVICE ushort bits_of(float value) {
  return type == BF16 ? float_to_bf16(value) : float_to_f16(value);
}

// How a side lies in a stage, in 16-bit elements. Along: [rows][kDepth]; across: [kDepth][rows]. Pieces of 16 bytes are
// exchanged among themselves so that neither the copies nor ldmatrix meet in a bank.
template <int rows, bool along>
DEVICE int piece_place(int row, int c) {  // of the piece that begins at element (row, c)
  if (along) return row * kDepth + (((c / 8) ^ ((row >> 1) & 3)) * 8);
  return c * rows + (((row / 8) ^ (c & 7)) * 8);
}

// Fills stages of one side by pieces as they lie in memory.
template <int rows, bool along, int threads>
struct DirectSide {
  static constexpr int kPieces = (along ? kDepth : rows) / 8;  // of a line
  static constexpr int kStep = threads / kPieces;              // lines at a time
  static constexpr int kLines = along ? rows : kDepth;
  static_assert(kStep % 8 == 0 && kLines % kStep == 0, "a thread's pieces are exchanged alike");

  const ushort* from;
  long line, advance;  // elements from line to line, and from stage to stage
  int lines, in_line;  // that are there from this thread's first piece on; of the dimension along a line, elements
  int c_left;          // steps of the sum from this thread's first piece on
  int to;

  DEVICE_MEMBER void open(const uchar* at, long origin, long row, long col, int first, int end, int begin, int end_k) {
    const int l = threadIdx.x / kPieces, e = threadIdx.x % kPieces * 8;
    const int i = first + (along ? l : e), c = begin + (along ? e : l);
    from = reinterpret_cast<const ushort*>(at) + origin + i * row + c * col;
    line = (along ? row : col) * kStep;
    advance = col * kDepth;
    lines = end - i;
    c_left = end_k - c;
    to = piece_place<rows, along>(along ? l : e, along ? e : l);
  }
  DEVICE_MEMBER void fill(ushort* stage) {
    UNROLL for (int s = 0; s < kLines / kStep; ++s) {
      // Across, what is left of rows is in the line, and of the sum among lines.
      const int there = along ? c_left : lines;
      const bool has_line = s * kStep < (along ? lines : c_left);
      const int elements = !has_line || there <= 0 ? 0 : there < 8 ? there : 8;
      copy_async_part(stage + to + s * kStep * (along ? kDepth : rows), from + s * line, elements * 2);
    }
    from += advance;
    c_left -= kDepth;
  }
};

// The same of any strides and dtypes, one element after the other, laid along.
template <int type, int rows, int threads>
struct AnySide {
  const uchar* at;
  long origin, row, sub, col;
  int parts, sum_parts, own_type, round, first, end, c, end_k;

  DEVICE_MEMBER void fill(ushort* stage) {
    for (int e = threadIdx.x; e < rows * kDepth; e += threads) {
      const int r = row == 1 ? e % rows : e / kDepth, s = row == 1 ? e / rows : e % kDepth;
      const bool there = first + r < end && c + s < end_k;
      const long place = there ? origin + row_at(first + r, row, sub, parts) + row_at(c + s, col, sub, sum_parts) : 0;
      const float value = there ? round_float(round, load_float(own_type, at, place)) : 0.0f;
      stage[piece_place<rows, true>(r, s) + s % 8] = bits_of<type>(value);
    }
    c += kDepth;
  }
};

// A warp's part of a side for a step of 16: fragments of `blocks` of 16 rows of a.
template <int rows, bool along, int blocks>
DEVICE void load_left(uint (&left)[blocks][4], const ushort* stage, int row, int c) {
  const int lane = threadIdx.x % 32, i = lane / 8, r = lane % 8;
  UNROLL for (int b = 0; b < blocks; ++b) {
    const int at_row = row + b * 16 + (i & 1) * 8, at_c = c + (i >> 1) * 8;
    if (along) {
      ldmatrix_x4(left[b], stage + piece_place<rows, true>(at_row + r, at_c));
    } else {
      ldmatrix_x4_trans(left[b], stage + piece_place<rows, false>(at_row, at_c + r));
    }
  }
}
// And of `blocks` of 8 rows of b, an even number.
template <int rows, bool along, int blocks>
DEVICE void load_right(uint (&right)[blocks][2], const ushort* stage, int row, int c) {
  const int lane = threadIdx.x % 32, i = lane / 8, r = lane % 8;
  UNROLL for (int b = 0; b < blocks; b += 2) {
    const int at_row = row + b * 8 + (i >> 1) * 8, at_c = c + (i & 1) * 8;
    uint four[4];
    if (along) {
      ldmatrix_x4(four, stage + piece_place<rows, true>(at_row + r, at_c));
    } else {
      ldmatrix_x4_trans(four, stage + piece_place<rows, false>(at_row, at_c + r));
    }
    right[b][0] = four[0];
    right[b][1] = four[1];
    right[b + 1][0] = four[2];
    right[b + 1][1] = four[3];
  }
}

// A warp's sums to memory, 16 rows at a time through its own part of shared memory, so that whole lines are written.
template <int rows, int columns>
DEVICE void give_warp(const Product& p, const Work& work, const float (&sums)[rows / 16][columns / 8][4], float* room,
                      int row, int column) {
  constexpr int kStride = columns + 8, kLanes = columns / 4;  // lanes of a row
  const int lane = threadIdx.x % 32, in_row = lane % kLanes * 4, j = work.j + column + in_row;
  const bool whole = gives_whole(p, j);
  const Four bias = bias_of_columns(p, work, j);
  UNROLL for (int b = 0; b < rows / 16; ++b) {
    __syncwarp();
    UNROLL for (int block = 0; block < columns / 8; ++block) {
      float* const at = room + lane / 4 * kStride + block * 8 + lane % 4 * 2;
      at[0] = sums[b][block][0];
      at[1] = sums[b][block][1];
      at[8 * kStride] = sums[b][block][2];
      at[8 * kStride + 1] = sums[b][block][3];
    }
    __syncwarp();
    UNROLL_4 for (int r = lane / kLanes; r < 16; r += 32 / kLanes) {
      const int i = work.first + row + b * 16 + r;
      const float* const from = room + r * kStride + in_row;
      if (i >= work.end) break;
      if (whole) {
        give_whole(p, work, i, j, load_four(F32, reinterpret_cast<const uchar*>(from), 0), bias);
      } else {
        NO_UNROLL for (int l = 0; l < 4 && j + l < p.n; ++l) give_sum(p, work, i, j + l, from[l]);
      }
    }
  }
}

// Sums of a warp's `warp_rows` x `warp_columns` of a block's tile.
template <int type, int rows, int columns, int warp_rows, int warp_columns, bool a_along, bool b_along, typename SideA,
          typename SideB>
DEVICE void product_of_sides(const Product& p, const Work& work, SideA& a, SideB& b, ushort* room) {
  constexpr int kStage = (rows + columns) * kDepth, kSteps = kDepth / 16;
  constexpr int kA = warp_rows / 16, kB = warp_columns / 8;
  const int warp = threadIdx.x / 32;
  const int row = warp % (rows / warp_rows) * warp_rows, column = warp / (rows / warp_rows) * warp_columns;
  const int tiles = work.end_k > work.begin ? (work.end_k - work.begin + kDepth - 1) / kDepth : 0;
  float sums[kA][kB][4];
  UNROLL for (int i = 0; i < kA; ++i) {
    UNROLL for (int j = 0; j < kB; ++j) {
      UNROLL for (int l = 0; l < 4; ++l) sums[i][j][l] = 0.0f;
    }
  }
  uint left[2][kA][4], right[2][kB][2];
  const auto fill = [&](int tile) {
    if (tile < tiles) {
      ushort* const stage = room + tile % kStages * kStage;
      a.fill(stage);
      b.fill(stage + rows * kDepth);
    }
    copy_async_commit();
  };
  const auto load = [&](int which, int tile, int step) {
    const ushort* const stage = room + tile % kStages * kStage;
    load_left<rows, a_along, kA>(left[which], stage, row, step * 16);
    load_right<columns, b_along, kB>(right[which], stage + rows * kDepth, column, step * 16);
  };
  UNROLL for (int tile = 0; tile < kStages - 1; ++tile) fill(tile);
  copy_async_wait<kStages - 2>();
  __syncthreads();
  if (tiles > 0) load(0, 0, 0);
  for (int tile = 0; tile < tiles; ++tile) {
    UNROLL for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 1) {
        copy_async_wait<kStages - 2>();
        __syncthreads();
        if (tile + 1 < tiles) load((step + 1) % 2, tile + 1, 0);
      } else {
        load((step + 1) % 2, tile, step + 1);
      }
      // What the stage before held has been read by all: the last step has waited for them.
      if (step == 0) fill(tile + kStages - 1);
      UNROLL for (int i = 0; i < kA; ++i) {
        UNROLL for (int j = 0; j < kB; ++j) multiply<type>(sums[i][j], left[step % 2][i], right[step % 2][j]);
      }
    }
  }
  copy_async_wait<0>();
  __syncthreads();
  float* const own = reinterpret_cast<float*>(room) + warp * 16 * (warp_columns + 8);
  give_warp<warp_rows, warp_columns>(p, work, sums, own, row, column);
}

template <int type, int rows, int columns, int warp_rows, int warp_columns, bool a_along, bool b_along>
DEVICE void product_tensor(const Product& p, ushort* room) {
  constexpr int kThreads = rows / warp_rows * (columns / warp_columns) * 32;
  begin_overlapped();
  const Work work = find_work<rows, columns>(p);
  if (work.first >= work.end) return;
  if (work.batch < 0) {
    give_zeros<columns>(p, work);
    return;
  }
  DirectSide<rows, a_along, kThreads> a;
  DirectSide<columns, b_along, kThreads> b;
  a.open(p.a, a_origin(p, work), p.a_row, p.a_col, work.first, work.end, work.begin, work.end_k);
  b.open(p.b, work.batch * p.b_batch, p.b_row, p.b_col, work.j, p.n, work.begin, work.end_k);
  product_of_sides<type, rows, columns, warp_rows, warp_columns, a_along, b_along>(p, work, a, b, room);
}

template <int type, int rows, int columns, int warp_rows, int warp_columns>
DEVICE void product_any(const Product& p, ushort* room) {
  constexpr int kThreads = rows / warp_rows * (columns / warp_columns) * 32;
  begin_overlapped();
  const Work work = find_work<rows, columns>(p);
  if (work.first >= work.end) return;
  if (work.batch < 0) {
    give_zeros<columns>(p, work);
    return;
  }
  AnySide<type, rows, kThreads> a = {p.a,         a_origin(p, work), p.a_row, p.a_sub,    p.a_col,  p.parts,
                                     p.sum_parts, p.a_type,          p.round, work.first, work.end, work.begin, work.end_k};
  AnySide<type, columns, kThreads> b = {p.b,         work.batch * p.b_batch, p.b_row, p.b_sub, p.b_col, 1,
                                        p.sum_parts, p.b_type,               p.round, work.j,  p.n, work.begin, work.end_k};
  product_of_sides<type, rows, columns, warp_rows, warp_columns, true, true>(p, work, a, b, room);
}

// One tile in the orders of sides that there are; a's across and b's along is turned.
#define TENSOR_KERNELS(type, name, rows, columns, warp_rows, warp_columns, threads, blocks) \
  KERNEL_BOUNDED(product_tensor_##name##_nt, threads, blocks)(const Product p) {            \
    DYNAMIC_SHARED(ushort, room);                                                           \
    product_tensor<type, rows, columns, warp_rows, warp_columns, true, true>(p, room);      \
  }                                                                                         \
  KERNEL_BOUNDED(product_tensor_##name##_nn, threads, blocks)(const Product p) {            \
    DYNAMIC_SHARED(ushort, room);                                                           \
    product_tensor<type, rows, columns, warp_rows, warp_columns, true, false>(p, room);     \
  }                                                                                         \
  KERNEL_BOUNDED(product_tensor_##name##_tn, threads, blocks)(const Product p) {            \
    DYNAMIC_SHARED(ushort, room);                                                           \
    product_tensor<type, rows, columns, warp_rows, warp_columns, false, false>(p, room);    \
  }
#define TENSOR_KERNELS_OF(type, suffix)                                            \
  TENSOR_KERNELS(type, 128x256_##suffix, 128, 256, 64, 64, 256, 1)                 \
  TENSOR_KERNELS(type, 128x128_##suffix, 128, 128, 64, 64, 128, 2)                 \
  TENSOR_KERNELS(type, 64x128_##suffix, 64, 128, 32, 64, 128, 3)                   \
  TENSOR_KERNELS(type, 64x64_##suffix, 64, 64, 32, 32, 128, 4)                     \
  KERNEL_BOUNDED(product_tensor_any_##suffix, 128, 4)(const Product p) {           \
    DYNAMIC_SHARED(ushort, room);                                                  \
    product_any<type, 64, 64, 32, 32>(p, room);                                    \
  }
