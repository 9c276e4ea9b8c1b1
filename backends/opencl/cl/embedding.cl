typedef struct {
  long rows;
  long width;
  long chunk;
  long chunks;
  long vocab;
  long table[2];
  long ids;
  long y[2];
} Shape;

kernel void embedding(INPUT(table), INPUT(ids), OUTPUT(y), const Shape shape) {
  const long row = get_global_id(0) / shape.chunks;
  if (row >= shape.rows) return;
  const long first = get_global_id(0) % shape.chunks * shape.chunk;
  const long last = min(first + shape.chunk, shape.width);
  const long id = AS(int, ids)[row * shape.ids];
  const int there = id >= 0 && id < shape.vocab;
  const long from = there ? id * shape.table[0] : 0;
  const long to = row * shape.y[0];
  for (long c = first; c < last; ++c) {
    PUT(y, to + c * shape.y[1], there ? GET(table, from + c * shape.table[1]) : 0.0f);
  }
}
