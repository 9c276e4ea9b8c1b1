// Products of few rows of a by many of b, both along the sum and of 16 bits: b goes from memory straight to the matrix
// units, once, with many loads under way. The rows of b are the left side of mma, those of a its columns.
#include "backends/cuda/cu/product.cuh"

namespace {

template <int type>
DEVICE void multiply_words(float (&d)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  const uint a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  if constexpr (type == BF16) {
    mma_bf16(d, a, b);
  } else {
    mma_f16(d, a, b);
  }
}

// The first of what the block reads of b, towards the cache, while a may still be in the making: up to 4 kB of each
// row.
template <int columns>
DEVICE void bring_nearer(const Product& p, const Work& work, const ushort* b) {
  constexpr int kLine = 64, kLines = 32;  // elements; of a row
  const int all = (work.end_k - work.begin + kLine - 1) / kLine, lines = all < kLines ? all : kLines;
  for (int e = threadIdx.x; e < columns * lines; e += blockDim.x) {
    const int row = work.j + e / lines;
    if (row < p.n) prefetch_line(b + row * p.b_row + work.begin + e % lines * kLine);
  }
}

// 8 `row_blocks` rows of a by 16 `column_blocks` of b. The eight warps share the sum: each takes `unroll` steps of 32
// in turn. In a step a lane has eight neighbours along the sum, which no fragment has: but both sides are out of order
// alike.
template <int type, int row_blocks, int column_blocks, int unroll>
DEVICE void product_stream(const Product& p, float* room) {
  constexpr int kWarps = 8, kRows = 8 * row_blocks, kColumns = 16 * column_blocks, kStep = 32 * unroll;
  const bool lists = p.tiles != nullptr || p.bounds != nullptr;  // which others may have written just before
  if (lists) wait_for_previous();
  const Work work = find_work<kRows, kColumns>(p);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int in_block = lane / 4, piece = lane % 4 * 8;
  const ushort* const a = reinterpret_cast<const ushort*>(p.a) + a_origin(p, work);
  const ushort* const b = reinterpret_cast<const ushort*>(p.b) + work.batch * p.b_batch;
  if (!lists) {
    bring_nearer<kColumns>(p, work, b);
    wait_for_previous();
  }
  let_next_start();
  float sums[column_blocks][row_blocks][4];
  UNROLL for (int j = 0; j < column_blocks; ++j) {
    UNROLL for (int i = 0; i < row_blocks; ++i) {
      UNROLL for (int l = 0; l < 4; ++l) sums[j][i][l] = 0.0f;
    }
  }
  for (int c = work.begin + warp * kStep; c < work.end_k; c += kWarps * kStep) {
    Words4 from_b[unroll][column_blocks][2], from_a[unroll][row_blocks];
    UNROLL for (int u = 0; u < unroll; ++u) {
      const int at = c + u * 32 + piece;
      UNROLL for (int j = 0; j < 2 * column_blocks; ++j) {
        const int row = work.j + j * 8 + in_block;
        from_b[u][j / 2][j % 2] = at < work.end_k && row < p.n ? load_once(b + row * p.b_row + at) : Words4{0, 0, 0, 0};
      }
    }
    UNROLL for (int u = 0; u < unroll; ++u) {
      const int at = c + u * 32 + piece;
      UNROLL for (int i = 0; i < row_blocks; ++i) {
        const int row = work.first + i * 8 + in_block;
        const bool there = at < work.end_k && row < work.end;
        from_a[u][i] = there ? *reinterpret_cast<const Words4*>(a + row * p.a_row + at) : Words4{0, 0, 0, 0};
      }
    }
    UNROLL for (int u = 0; u < unroll; ++u) {
      UNROLL for (int j = 0; j < column_blocks; ++j) {
        const Words4 &top = from_b[u][j][0], &low = from_b[u][j][1];
        UNROLL for (int i = 0; i < row_blocks; ++i) {
          const Words4& right = from_a[u][i];
          multiply_words<type>(sums[j][i], top.x, low.x, top.y, low.y, right.x, right.y);
          multiply_words<type>(sums[j][i], top.z, low.z, top.w, low.w, right.z, right.w);
        }
      }
    }
  }
  float* const own = room + warp * kRows * kColumns;  // [rows][columns]
  UNROLL for (int j = 0; j < column_blocks; ++j) {
    UNROLL for (int i = 0; i < row_blocks; ++i) {
      UNROLL for (int l = 0; l < 4; ++l) {
        own[(i * 8 + lane % 4 * 2 + l % 2) * kColumns + j * 16 + l / 2 * 8 + in_block] = sums[j][i][l];
      }
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < kRows * kColumns; e += 32 * kWarps) {
    const int i = work.first + e / kColumns, j = work.j + e % kColumns;
    if (i >= work.end || j >= p.n) continue;
    float sum = room[e];
    UNROLL for (int w = 1; w < kWarps; ++w) sum += room[w * kRows * kColumns + e];
    give_sum(p, work, i, j, sum);
  }
}

}  // namespace

#define STREAM_KERNEL(name, type, row_blocks, column_blocks, unroll)          \
  KERNEL_BOUNDED(product_stream_##name, 256, 2)(const Product p) {            \
    SHARED float room[8 * 8 * row_blocks * 16 * column_blocks];               \
    product_stream<type, row_blocks, column_blocks, unroll>(p, room);         \
  }
STREAM_KERNEL(8_bf16, BF16, 1, 1, 4)
STREAM_KERNEL(16_bf16, BF16, 2, 2, 2)
STREAM_KERNEL(32_bf16, BF16, 4, 2, 2)
STREAM_KERNEL(8_f16, F16, 1, 1, 4)
STREAM_KERNEL(16_f16, F16, 2, 2, 2)
STREAM_KERNEL(32_f16, F16, 4, 2, 2)
