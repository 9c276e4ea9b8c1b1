// Rows of x that meet in a row of y are found first: rows are sorted by where they go, in their own order where that is
// the same. Then the first of each such run adds all of them.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

CONSTANT int TILE = 2048;  // indices that a block looks at together
CONSTANT int SHARE = 8;    // threads of a row: each looks at every 8th index

// order[place] = row. A row's place is how many go before it, which is counted.
KERNEL_BOUNDED(scatter_add_rows_sort, 256, 4)(const int* index, int* order, long rows, long stride) {
  SHARED int tile[TILE];
  const long row = static_cast<long>(blockIdx.x) * (256 / SHARE) + threadIdx.x / SHARE;
  const int share = threadIdx.x % SHARE;
  const int own = row < rows ? index[row * stride] : 0;
  int before = 0;
  for (long first = 0; first < rows; first += TILE) {
    const int count = static_cast<int>(rows - first < TILE ? rows - first : TILE);
    __syncthreads();  // the tile before has been read
    for (int i = threadIdx.x; i < count; i += 256) tile[i] = index[(first + i) * stride];
    __syncthreads();
    const long left = row - first;  // of the tile: the rows in front of this one
    const int earlier = left < 0 ? 0 : left < count ? static_cast<int>(left) : count;
    int i = share;
    _Pragma("unroll 4") for (; i < earlier; i += SHARE) before += tile[i] <= own ? 1 : 0;
    _Pragma("unroll 4") for (; i < count; i += SHARE) before += tile[i] < own ? 1 : 0;
  }
  UNROLL for (int step = SHARE / 2; step > 0; step /= 2) before += __shfl_xor_sync(0xffffffffu, before, step);
  if (row < rows && share == 0) order[before] = static_cast<int>(row);
}

struct ScatterSizes {
  long rows, rows_of_y, width, chunks;
  long index;
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
KERNEL(scatter_add_rows)(Tensor x, const int* index, const int* order, Tensor y, ScatterSizes s) {
  long place, chunk;
  if (!find_part(s.rows, s.chunks, place, chunk)) return;
  const long c = chunk * W, left = s.width - c;
  const long first = order[place];
  const int own = index[first * s.index];
  if (own < 0 || own >= s.rows_of_y) return;
  if (place > 0 && index[order[place - 1] * s.index] == own) return;
  const long to = own * s.y[0] + c * s.y[1];
  Floats sum = fetch(y, to, s.y[1], left);
  long row = first;
  for (long at = place; row >= 0;) {
    const Floats values = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    ++at;  // the next row is looked for while this one comes
    row = at < s.rows ? order[at] : -1;
    if (row >= 0 && index[row * s.index] != own) row = -1;
    sum = sum + values;
  }
  spread(y, to, s.y[1], left, sum);
}
