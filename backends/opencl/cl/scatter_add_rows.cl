// Rows of x that meet in a row of y are found first, as a list in their order: head[i] is the first row that points at i,
// next[r] the one after r, -1: none. Then each row of y adds its own, which no other touches.

// On a CPU: from the last row to the first, by one work-item.
kernel void link_in_turn(INPUT(index), OUTPUT(head), OUTPUT(next), const long rows, const long index_stride,
                         const long rows_of_y) {
  global int* const heads = AS_OUT(int, head);
  for (long r = rows - 1; r >= 0; --r) {
    const int to = AS(int, index)[r * index_stride];
    if (to < 0 || to >= rows_of_y) continue;
    AS_OUT(int, next)[r] = heads[to];
    heads[to] = (int)r;
  }
}

// On a GPU: each row looks for the next like it, and whether one came before.
kernel void link_beside(INPUT(index), OUTPUT(head), OUTPUT(next), const long rows, const long index_stride,
                        const long rows_of_y) {
  const long r = get_global_id(0);
  if (r >= rows) return;
  const global int* const to = AS(int, index);
  const int own = to[r * index_stride];
  if (own < 0 || own >= rows_of_y) return;
  long after = r + 1;
  while (after < rows && to[after * index_stride] != own) ++after;
  AS_OUT(int, next)[r] = after < rows ? (int)after : -1;
  long before = 0;
  while (before < r && to[before * index_stride] != own) ++before;
  if (before == r) AS_OUT(int, head)[own] = (int)r;
}

typedef struct {
  long rows;
  long width;
  long parts;  // of a row: each COLUMNS columns of one work-item
  long x[2];
  long y[2];
} Shape;

kernel void add_rows(INPUT(x), INPUT(head), INPUT(next), OUTPUT(y), const Shape shape) {
  const long row = get_global_id(0) / shape.parts;
  if (row >= shape.rows) return;
  const long first = get_global_id(0) % shape.parts * COLUMNS;
  const int count = (int)min((long)COLUMNS, shape.width - first);
  int from = AS(int, head)[row];
  if (ADDS_y && from < 0) return;
  const long to = row * shape.y[0] + first * shape.y[1];
  float sum[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) sum[c] = 0.0f;
  if (ADDS_y) {
    for (int c = 0; c < count; ++c) sum[c] = GET(y, to + c * shape.y[1]);
  }
  for (; from >= 0; from = AS(int, next)[from]) {
    const long at = from * shape.x[0] + first * shape.x[1];
    if (count == COLUMNS && shape.x[1] == 1) {
      for (int c = 0; c < COLUMNS; ++c) sum[c] += GET(x, at + c);
    } else {
      for (int c = 0; c < count; ++c) sum[c] += GET(x, at + c * shape.x[1]);
    }
  }
  for (int c = 0; c < count; ++c) PUT(y, to + c * shape.y[1], sum[c]);
}
