#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct GatherSizes {
  long rows, rows_of_x;
  long x_row, y_row, index;  // strides in elements
};

DEVICE long source_of(const int* index, const GatherSizes& s, long row) {
  const long source = index[row * s.index];
  return source >= 0 && source < s.rows_of_x ? source : -1;
}

// Rows of whole, aligned 16 bytes; strides count those. A thread has 16 bytes.
KERNEL(gather_rows_wide)(const uchar* x, const int* index, uchar* y, GatherSizes s, long row_quads) {
  long row, at;
  if (!find_part(s.rows, row_quads, row, at)) return;
  const long source = source_of(index, s, row);
  const Quad none = {0, 0, 0, 0};
  store_quad(y + (row * s.y_row + at) * 16, source >= 0 ? load_quad(x + (source * s.x_row + at) * 16) : none);
}

// Elements of any kind and strides, by their bytes: 1, 2, 4 or 8. `walk` is of one row: of y, then of x.
template <typename Element>
DEVICE void gather(const Element* x, const int* index, Element* y, const GatherSizes& s, const Walk& walk) {
  long row, part;
  if (!find_part(s.rows, walk.units, row, part)) return;
  const long source = source_of(index, s, row), outer = part / walk.chunks, first = part % walk.chunks * walk.chunk;
  const long last = first + walk.chunk < walk.inner ? first + walk.chunk : walk.inner;
  Element* const to = y + row * s.y_row + walk_row(walk, 0, outer);
  const Element* const from = x + source * s.x_row + walk_row(walk, 1, outer);
  for (long i = first; i < last; ++i) {
    to[i * walk.inner_stride[0]] = source >= 0 ? from[i * walk.inner_stride[1]] : Element{0};
  }
}
KERNEL(gather_rows_1)(const uchar* x, const int* index, uchar* y, GatherSizes s, Walk walk) {
  gather(x, index, y, s, walk);
}
KERNEL(gather_rows_2)(const ushort* x, const int* index, ushort* y, GatherSizes s, Walk walk) {
  gather(x, index, y, s, walk);
}
KERNEL(gather_rows_4)(const uint* x, const int* index, uint* y, GatherSizes s, Walk walk) {
  gather(x, index, y, s, walk);
}
KERNEL(gather_rows_8)(const ulong* x, const int* index, ulong* y, GatherSizes s, Walk walk) {
  gather(x, index, y, s, walk);
}
