// What every product shares: its sizes, where a block's work lies, and how a sum becomes a result.
//
// sum(i, j) over c of a(i, c) b(j, c), i < m, j < n, c < k.
#pragma once

#include "backends/cuda/cu/tensor_cores.cuh"

#define UNROLL_4 _Pragma("unroll 4")
#define NO_UNROLL _Pragma("unroll 1")

// As in product.cpp.
struct Product {
  const uchar* a;
  const uchar* b;
  const uchar* bias;   // null: none
  uchar* out;
  float* partials;     // [splits, batch, m, n] where the sum is split, and nothing else is written
  const int* tiles;    // grouped: first row, end, expert, 0 of each
  const int* bounds;   // bounded: the sum of batch z goes from bounds[z] to bounds[z + 1]
  // Strides in elements. Row i of a lies at i / parts a_row + i % parts a_sub, step c of a sum at c / sum_parts a_col +
  // c % sum_parts a_sub; one of the two is 1.
  long a_row, a_sub, a_col, a_batch;
  long b_row, b_col, b_sub, b_batch;
  long out_row, out_sub, out_col, out_batch;
  long bias_step, bias_batch;
  int m, n, k, batch;
  int tiles_i, tiles_j;  // blocks are tiles_i tiles_j batch by splits
  int list_parts;        // blocks of a tile of the list
  int depth;             // of the sum that a split has
  int parts, sum_parts;  // 1: plain
  int a_type, b_type;
  int round;             // what both sides are rounded to
  int out_type;
  int bias_type;
  int bias_of_rows;      // 1: bias belongs to i, not to j
  int adds;
  int a_vector, b_vector, out_vector;  // whether four neighbours from a multiple of four on are read, or written, at once
  float alpha;
};

DEVICE long row_at(int i, long row, long sub, int parts) {
  return parts == 1 ? i * row : i / parts * row + i % parts * sub;
}

// A block's part: rows of a from first to end, rows of b from j on, steps of the sum from begin to end_k.
struct Work {
  int first, end, j;
  int batch;  // or expert; -1: rows of no expert
  int begin, end_k;
};
// Neighbouring blocks share rows of b and a few of a, so that both stay in the cache.
template <int rows, int columns>
DEVICE Work find_work(const Product& p) {
  constexpr int kGroup = 8;
  const int tiles = p.tiles_i * p.tiles_j;
  const int z = blockIdx.x / tiles, t = blockIdx.x % tiles;
  const int group = t / (kGroup * p.tiles_j), in_group = t % (kGroup * p.tiles_j);
  const int group_rows = p.tiles_i - group * kGroup < kGroup ? p.tiles_i - group * kGroup : kGroup;
  const int i = group * kGroup + in_group % group_rows;
  Work work;
  work.j = in_group / group_rows * columns;
  work.batch = z;
  if (p.tiles != nullptr) {
    const int* const tile = p.tiles + 4L * (i / p.list_parts);
    work.first = tile[0] + i % p.list_parts * rows;
    work.end = work.first + rows < tile[1] ? work.first + rows : tile[1];
    work.batch = tile[2];
  } else {
    work.first = i * rows;
    work.end = work.first + rows < p.m ? work.first + rows : p.m;
  }
  int from = 0, to = p.k;
  if (p.bounds != nullptr) {
    from = p.bounds[z] > 0 ? p.bounds[z] : 0;
    to = p.bounds[z + 1] < p.k ? p.bounds[z + 1] : p.k;
  }
  work.begin = from + static_cast<int>(blockIdx.y) * p.depth;
  work.end_k = work.begin + p.depth < to ? work.begin + p.depth : to;
  return work;
}
DEVICE long a_origin(const Product& p, const Work& work) { return p.tiles != nullptr ? 0 : work.batch * p.a_batch; }
DEVICE long out_origin(const Product& p, const Work& work) { return p.tiles != nullptr ? 0 : work.batch * p.out_batch; }

// out(i, j) from the sum of the products.
DEVICE void finish_sum(const Product& p, int batch, long out_at, int i, int j, float sum) {
  float value = sum * p.alpha;
  if (p.bias != nullptr) {
    const long at = batch * p.bias_batch + (p.bias_of_rows != 0 ? i : j) * p.bias_step;
    value = fmaf(sum, p.alpha, load_float(p.bias_type, p.bias, at));
  }
  const long at = out_at + row_at(i, p.out_row, p.out_sub, p.parts) + j * p.out_col;
  if (p.adds != 0) value += load_float(p.out_type, p.out, at);
  store_float(p.out_type, p.out, at, value);
}
// The same, or where the sum is split the part of this split.
DEVICE void give_sum(const Product& p, const Work& work, int i, int j, float sum) {
  if (p.partials != nullptr) {
    p.partials[((static_cast<long>(blockIdx.y) * p.batch + work.batch) * p.m + i) * p.n + j] = sum;
  } else {
    finish_sum(p, work.batch, out_origin(p, work), i, j, sum);
  }
}

// Rows of no expert: zeros.
template <int columns>
DEVICE void give_zeros(const Product& p, const Work& work) {
  if (p.adds != 0) return;
  const int last = work.j + columns < p.n ? work.j + columns : p.n;
  for (int i = work.first; i < work.end; ++i) {
    const long at = row_at(i, p.out_row, p.out_sub, p.parts);
    for (int j = work.j + static_cast<int>(threadIdx.x); j < last; j += blockDim.x) {
      store_float(p.out_type, p.out, at + j * p.out_col, 0.0f);
    }
  }
}

// Four neighbours as fp32.
struct Four {
  float x[4];
};
struct alignas(8) Words2 {
  uint x, y;
};
DEVICE float low_float(int type, uint word) {
  return type == BF16 ? __uint_as_float(word << 16) : f16_to_float(static_cast<ushort>(word & 0xffffu));
}
DEVICE float high_float(int type, uint word) {
  return type == BF16 ? __uint_as_float(word & 0xffff0000u) : f16_to_float(static_cast<ushort>(word >> 16));
}
// At an element that is aligned for it: 16 bytes of fp32, 8 of the others.
DEVICE Four load_four(int type, const uchar* at, long element) {
  Four four;
  if (type == F32) {
    const Words4 words = *reinterpret_cast<const Words4*>(at + element * 4);
    four.x[0] = __uint_as_float(words.x);
    four.x[1] = __uint_as_float(words.y);
    four.x[2] = __uint_as_float(words.z);
    four.x[3] = __uint_as_float(words.w);
  } else {
    const Words2 words = *reinterpret_cast<const Words2*>(at + element * 2);
    four.x[0] = low_float(type, words.x);
    four.x[1] = high_float(type, words.x);
    four.x[2] = low_float(type, words.y);
    four.x[3] = high_float(type, words.y);
  }
  return four;
}
// `count` of four elements, which are `step` apart, as fp32 rounded to `round`; zeros instead of the others.
DEVICE Four load_some(int type, int round, const uchar* at, long element, long step, int count, bool at_once) {
  Four four;
  if (at_once && count >= 4) {
    four = load_four(type, at, element);
  } else {
    UNROLL for (int l = 0; l < 4; ++l) four.x[l] = l < count ? load_float(type, at, element + l * step) : 0.0f;
  }
  UNROLL for (int l = 0; l < 4; ++l) four.x[l] = round_float(round, four.x[l]);
  return four;
}

DEVICE void store_four(int type, uchar* at, long element, const Four& four) {
  if (type == F32) {
    *reinterpret_cast<Words4*>(at + element * 4) = {__float_as_uint(four.x[0]), __float_as_uint(four.x[1]),
                                                    __float_as_uint(four.x[2]), __float_as_uint(four.x[3])};
  } else {
    uint bits[4];
    UNROLL for (int l = 0; l < 4; ++l) bits[l] = type == BF16 ? float_to_bf16(four.x[l]) : float_to_f16(four.x[l]);
    *reinterpret_cast<Words2*>(at + element * 2) = {bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
  }
}
// Whether a row's four neighbours from j on, a multiple of four, are given at once by give_whole.
DEVICE bool gives_whole(const Product& p, int j) {
  return j + 4 <= p.n && (p.partials != nullptr ? p.n % 4 == 0 : p.out_vector != 0);
}
// What is added to four columns of every row.
DEVICE Four bias_of_columns(const Product& p, const Work& work, int j) {
  Four bias = {{0.0f, 0.0f, 0.0f, 0.0f}};
  if (p.bias == nullptr || p.bias_of_rows != 0 || p.partials != nullptr) return bias;
  UNROLL for (int l = 0; l < 4; ++l) {
    if (j + l < p.n) bias.x[l] = load_float(p.bias_type, p.bias, work.batch * p.bias_batch + (j + l) * p.bias_step);
  }
  return bias;
}
DEVICE void give_whole(const Product& p, const Work& work, int i, int j, const Four& sums, const Four& bias) {
  if (p.partials != nullptr) {
    const long row = (static_cast<long>(blockIdx.y) * p.batch + work.batch) * p.m + i;
    store_four(F32, reinterpret_cast<uchar*>(p.partials), row * p.n + j, sums);
    return;
  }
  Four values = bias;
  if (p.bias != nullptr && p.bias_of_rows != 0) {
    const float of_row = load_float(p.bias_type, p.bias, work.batch * p.bias_batch + i * p.bias_step);
    UNROLL for (int l = 0; l < 4; ++l) values.x[l] = of_row;
  }
  UNROLL for (int l = 0; l < 4; ++l) {
    values.x[l] = p.bias != nullptr ? fmaf(sums.x[l], p.alpha, values.x[l]) : sums.x[l] * p.alpha;
  }
  const long at = out_origin(p, work) + row_at(i, p.out_row, p.out_sub, p.parts) + j;
  if (p.adds != 0) {
    const Four old = load_four(p.out_type, p.out, at);
    UNROLL for (int l = 0; l < 4; ++l) values.x[l] += old.x[l];
  }
  store_four(p.out_type, p.out, at, values);
}
