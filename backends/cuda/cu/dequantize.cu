// A part of a weight as numbers: rows from `first_row` on, and of each `columns` from `first_column` on. A thread has
// 16 neighbours. Threads go along a row, or across rows where the packing's words do.
#include "backends/cuda/cu/packing.cuh"
#include "backends/cuda/cu/tensor_cores.cuh"

// Expansion of weight.h.
struct Expanded {
  uchar* at;
  int dtype;
  int columns;
  long row, column;  // strides of the result
  long first_row, first_column, rows;
  // Rows come in parts of so many, each so many rows of the weight, and so many elements of the result, after the one
  // before.
  long part_rows, part_step, part;
};

DEVICE void store_16(const Expanded& y, long at, const float (&values)[16]) {
  const int size = y.dtype == F32 ? 4 : 2;
  uchar* const place = y.at + at * size;
  if (y.column != 1 || (reinterpret_cast<unsigned long long>(place) & 15u) != 0) {
    UNROLL for (int i = 0; i < 16; ++i) store_float(y.dtype, y.at, at + i * y.column, values[i]);
    return;
  }
  uint4* const out = reinterpret_cast<uint4*>(place);
  if (y.dtype == F32) {
    UNROLL for (int i = 0; i < 4; ++i) {
      out[i] = {__float_as_uint(values[4 * i]), __float_as_uint(values[4 * i + 1]), __float_as_uint(values[4 * i + 2]),
                 __float_as_uint(values[4 * i + 3])};
    }
    return;
  }
  uint pairs[8];
  UNROLL for (int i = 0; i < 8; ++i) {
    const float low = values[2 * i], high = values[2 * i + 1];
    pairs[i] = y.dtype == BF16 ? pack_bf16(low, high) : pack_f16(low, high);
  }
  UNROLL for (int i = 0; i < 2; ++i) out[i] = {pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]};
}

template <int packing>
DEVICE void expand(const Weight& w, const Expanded& y) {
  const uint steps = static_cast<uint>(y.columns) / 16, rows = static_cast<uint>(y.rows);
  const uint unit = blockIdx.x * blockDim.x + threadIdx.x;
  constexpr bool across = packing == AWQ_INT4 || packing == GPTQ_INT4;
  const uint row = across ? unit % rows : unit / steps, step = across ? unit / rows : unit % steps;
  if (row >= rows || step >= steps) return;
  const uint length = static_cast<uint>(y.part_rows), part = row < length ? 0 : row / length;
  const uint inside = row - part * length;
  const long from = y.first_row + part * y.part_step + inside;
  float values[16];
  weight_16<packing>(w, from, static_cast<int>(y.first_column) + static_cast<int>(step) * 16, values);
  store_16(y, part * y.part + inside * y.row + step * 16 * y.column, values);
}

#define EXPAND(packing) \
  KERNEL(dequantize_##packing)(Weight w, Expanded y) { expand<packing>(w, y); }
EACH_PACKING_OF_BLOCKS(EXPAND)
EACH_PACKING_OF_PLANES(EXPAND)

// A weight that lies as numbers, of any strides. A thread has one.
KERNEL(dequantize_numbers)(Tensor w, long w_row, long w_column, Expanded y) {
  const long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long row = unit / y.columns, column = unit % y.columns;
  if (row >= y.rows) return;
  const float value = get(w, (y.first_row + row) * w_row + (y.first_column + column) * w_column);
  store_float(y.dtype, y.at, row * y.row + column * y.column, value);
}
