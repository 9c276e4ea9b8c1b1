// Low-rank adapters where each row has its own: y[r] = b[s] (a[s] x[r]), s = slots[r] (ops/lora_segmented.h). A sum's
// order is that of its row alone. Neighbouring rows of one slot, as those of a prompt are, read a and b together.
#include "backends/cuda/cu/vectors.cuh"

CONSTANT int RANKS = 2;  // of a block of the first product
CONSTANT int ROWS = 4;   // of a block where there are many

// As struct Segmented of lora_segmented.cpp.
struct Segmented {
  long x[2], a[3], b[3], y[2];  // strides
  long slot;                    // stride of slots
  long rows, in, out;
  int rank, pitch;  // of low: whole vectors
  int num_slots;
};

// Of a row; -1: no adapter.
DEVICE int slot_at(const int* slots, const Segmented& s, long row) {
  const int slot = slots[row * s.slot];
  return slot >= 0 && slot < s.num_slots ? slot : -1;
}
// Whether all rows of a block are there and have the same slot.
template <int rows>
DEVICE bool share_slot(const int* slots, const Segmented& s, long first) {
  if (first + rows > s.rows) return false;
  bool same = true;
  UNROLL for (int i = 1; i < rows; ++i) same = same && slots[(first + i) * s.slot] == slots[first * s.slot];
  return same;
}

// low[row, r] = a[slot, r] . x[row]: all threads of the block, for ranks from `rank` on; 0 beyond the last.
template <int rows>
DEVICE void shrink_rows(const Tensor& x, const Tensor& a, float* low, const Segmented& s, long first, int slot,
                        int rank, float* scratch) {
  float sums[rows][RANKS] = {};
  for (long c = threadIdx.x * W; c < s.in; c += blockDim.x * W) {
    const long left = s.in - c;
    Floats values[rows];
    UNROLL for (int i = 0; i < rows; ++i) values[i] = fetch(x, (first + i) * s.x[0] + c * s.x[1], s.x[1], left);
    UNROLL for (int r = 0; r < RANKS; ++r) {
      const long line = slot * s.a[0] + (rank + r) * s.a[1];
      const Floats factors = fetch(a, line + c * s.a[2], s.a[2], rank + r < s.rank ? left : 0);
      UNROLL for (int i = 0; i < rows; ++i) {
        UNROLL for (int l = 0; l < W; ++l) sums[i][r] = fmaf(values[i][l], factors[l], sums[i][r]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) {
    UNROLL for (int r = 0; r < RANKS; ++r) {
      const float sum = block_sum(sums[i][r], scratch);
      if (threadIdx.x == 0) low[(first + i) * s.pitch + rank + r] = rank + r < s.rank ? sum : 0.0f;
    }
  }
}
template <int rows>
DEVICE void shrink_block(const Tensor& x, const Tensor& a, const int* slots, float* low, const Segmented& s,
                         float* scratch) {
  const long first = static_cast<long>(blockIdx.x) * rows;
  const int rank = blockIdx.y * RANKS;
  if (share_slot<rows>(slots, s, first)) {
    const int slot = slot_at(slots, s, first);
    if (slot >= 0) shrink_rows<rows>(x, a, low, s, first, slot, rank, scratch);
    return;
  }
  for (long row = first; row < first + rows && row < s.rows; ++row) {
    const int slot = slot_at(slots, s, row);
    if (slot >= 0) shrink_rows<1>(x, a, low, s, row, slot, rank, scratch);
  }
}
KERNEL_BOUNDED(lora_segmented_shrink, 128, 4)
(Tensor x, Tensor a, const int* slots, float* low, Segmented s) {
  SHARED float scratch[32];
  begin_overlapped();
  shrink_block<1>(x, a, slots, low, s, scratch);
}
KERNEL_BOUNDED(lora_segmented_shrink_rows, 128, 4)
(Tensor x, Tensor a, const int* slots, float* low, Segmented s) {
  SHARED float scratch[32];
  begin_overlapped();
  shrink_block<ROWS>(x, a, slots, low, s, scratch);
}

// y[row, o] = b[slot, o] . low[row]: a thread has one output of each row.
template <int rows>
DEVICE void expand_rows(const float* low, const Tensor& b, const Tensor& y, const Segmented& s, long first, int slot,
                        long o) {
  const Tensor left = floats_at(const_cast<float*>(low));
  float sums[rows] = {};
  for (int j = 0; j < s.pitch; j += W) {
    const Floats factors = fetch(b, slot * s.b[0] + o * s.b[1] + j * s.b[2], s.b[2], s.rank - j);
    UNROLL for (int i = 0; i < rows; ++i) {
      const Floats values = fetch_wide<F32>(left, (first + i) * s.pitch + j);
      UNROLL for (int l = 0; l < W; ++l) sums[i] = fmaf(values[l], factors[l], sums[i]);
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) put_or_add(y, (first + i) * s.y[0] + o * s.y[1], sums[i]);
}
template <int rows>
DEVICE void expand_block(const float* low, const Tensor& b, const int* slots, const Tensor& y, const Segmented& s) {
  const long first = static_cast<long>(blockIdx.x) * rows;
  const long o = static_cast<long>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (o >= s.out) return;
  const bool together = share_slot<rows>(slots, s, first);
  if (together && slot_at(slots, s, first) >= 0) {
    return expand_rows<rows>(low, b, y, s, first, slot_at(slots, s, first), o);
  }
  for (long row = first; row < first + rows && row < s.rows; ++row) {
    const int slot = slot_at(slots, s, row);
    if (slot >= 0) {
      expand_rows<1>(low, b, y, s, row, slot, o);
    } else if (y.adds == 0) {
      put(y, row * s.y[0] + o * s.y[1], 0.0f);
    }
  }
}
KERNEL_BOUNDED(lora_segmented_expand, 128, 4)
(const float* low, Tensor b, const int* slots, Tensor y, Segmented s) {
  begin_overlapped();
  expand_block<1>(low, b, slots, y, s);
}
KERNEL_BOUNDED(lora_segmented_expand_rows, 128, 4)
(const float* low, Tensor b, const int* slots, Tensor y, Segmented s) {
  begin_overlapped();
  expand_block<ROWS>(low, b, slots, y, s);
}
