// A side of a product in the dtype that its elements are rounded to, so that the matrix units can read it.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct RoundSizes {
  long lines, width;  // neighbours of a line come to lie together
  long line, step;    // strides of what is rounded
  long pitch;         // of the copy: whole vectors
};
// A thread has W neighbours; behind a line's last there are zeros.
KERNEL(product_round)(Tensor from, Tensor to, RoundSizes s) {
  begin_overlapped();
  long line, chunk;
  if (!find_part(s.lines, s.pitch / W, line, chunk)) return;
  const long c = chunk * W;
  spread_wide<ANY>(to, line * s.pitch + c, fetch(from, line * s.line + c * s.step, s.step, s.width - c));
}
