#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/dropout.cuh"

struct DropoutSizes {
  long rows, width, chunks;
  long x[2], y[2];
};

// A thread has W features of a row: two counters' bits.
KERNEL(dropout)(Tensor x, Tensor y, DropoutSizes s, Dropping drop) {
  long row, chunk;
  if (!find_part(s.rows, s.chunks, row, chunk)) return;
  const long c = chunk * W, left = s.width - c;
  Floats kept = kept_of(drop, fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left), row, c, left);
  const long to = row * s.y[0] + c * s.y[1];
  if (y.adds != 0) kept = fetch(y, to, s.y[1], left) + kept;
  spread(y, to, s.y[1], left, kept);
}
