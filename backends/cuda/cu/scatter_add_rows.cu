// Rows of x that meet in a row of y are found first: rows are sorted by where they go, in their own order where that is
// the same. Then the first of each such run adds all of them.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

CONSTANT int TILE = 512;  // rows that a block sorts, a thread one

struct alignas(8) Sorted {
  int to;   // a row of y
  int row;  // of x
};

// Each tile sorted by itself: a row's place is how many go before it, which is counted.
KERNEL_BOUNDED(scatter_add_rows_tiles, 512, 2)(const int* index, Sorted* tiles, long rows, long stride) {
  SHARED int tile[TILE];
  const long first = static_cast<long>(blockIdx.x) * TILE;
  const int own = threadIdx.x, count = static_cast<int>(rows - first < TILE ? rows - first : TILE);
  if (own < count) tile[own] = index[(first + own) * stride];
  __syncthreads();
  if (own >= count) return;
  const int to = tile[own];
  int before = 0;
  _Pragma("unroll 4") for (int i = 0; i < own; ++i) before += tile[i] <= to ? 1 : 0;
  _Pragma("unroll 4") for (int i = own + 1; i < count; ++i) before += tile[i] < to ? 1 : 0;
  tiles[first + before] = {to, static_cast<int>(first) + own};
}

// All of them: a row's place is that in its tile, and how many of each other tile go before it.
KERNEL(scatter_add_rows_order)(const Sorted* tiles, Sorted* order, long rows) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows) return;
  const Sorted own = tiles[at];
  const long own_tile = at / TILE;
  long before = at % TILE;
  for (long first = 0, t = 0; first < rows; first += TILE, ++t) {
    if (t == own_tile) continue;
    const int count = static_cast<int>(rows - first < TILE ? rows - first : TILE);
    int less = 0;
    UNROLL for (int step = TILE; step > 0; step /= 2) {
      if (less + step > count) continue;
      const int other = tiles[first + less + step - 1].to;
      if (t < own_tile ? other <= own.to : other < own.to) less += step;
    }
    before += less;
  }
  order[before] = own;
}

struct ScatterSizes {
  long rows, rows_of_y, width, chunks;
  long x[2], y[2];
};

// y = 0, before rows are added.
KERNEL(scatter_add_rows_clear)(Tensor y, ScatterSizes s) {
  long row, chunk;
  if (!find_part(s.rows_of_y, s.chunks, row, chunk)) return;
  const long c = chunk * W;
  spread(y, row * s.y[0] + c * s.y[1], s.y[1], s.width - c, floats_of(0.0f));
}

// A thread has W columns of a place in the order, and does something where a run begins there.
KERNEL(scatter_add_rows)(Tensor x, const Sorted* order, Tensor y, ScatterSizes s) {
  long place, chunk;
  if (!find_part(s.rows, s.chunks, place, chunk)) return;
  const Sorted own = order[place];
  if (own.to < 0 || own.to >= s.rows_of_y || (place > 0 && order[place - 1].to == own.to)) return;
  const long c = chunk * W, left = s.width - c, to = own.to * s.y[0] + c * s.y[1];
  Floats sum = fetch(y, to, s.y[1], left);
  long row = own.row;
  for (long at = place + 1; row >= 0; ++at) {
    const Floats values = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    const Sorted next = at < s.rows ? order[at] : Sorted{-1, -1};  // on its way beside the values
    row = next.to == own.to ? next.row : -1;
    sum = sum + values;
  }
  spread(y, to, s.y[1], left, sum);
}
