// Elements of ELEMENT, a type of their size; dimension 1 of the work is the row, and `walk` is of one row.
kernel void gather_rows(INPUT(x), INPUT(index), OUTPUT(y), const Walk walk, const long rows_of_x, const long x_row,
                        const long y_row, const long index_stride) {
  const long row = get_global_id(1);
  const long source = AS(int, index)[row * index_stride];
  const global ELEMENT* const from = AS(ELEMENT, x) + source * x_row;
  global ELEMENT* const to = AS_OUT(ELEMENT, y) + row * y_row;
  if (source >= 0 && source < rows_of_x) {
#define STEP(o, i0) to[o] = from[i0];
    WALK(walk, 2, STEP)
  } else {
#define ZERO(o, i0) to[o] = 0;
    WALK(walk, 2, ZERO)
  }
}
