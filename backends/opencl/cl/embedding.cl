// Rows of a table by ids. A work-item has a chunk of a row. -D PACKING: of a quantised table, behind cl/packing.clh.
#ifdef PACKING
#include "backends/opencl/cl/packing.clh"
#endif

typedef struct {
  long rows;
  long width;
  long chunk;  // a multiple of 16
  long chunks;
  long vocab;
  long table[2];
  long ids;
  long y[2];
} Shape;

#ifdef PACKING
#define TABLE WEIGHT_PARAMETERS
#else
#define TABLE INPUT(table)
#endif

kernel void embedding(TABLE, INPUT(ids), OUTPUT(y), const Shape shape) {
  const long row = get_global_id(0) / shape.chunks;
  if (row >= shape.rows) return;
  const long first = get_global_id(0) % shape.chunks * shape.chunk;
  const long last = min(first + shape.chunk, shape.width);
  const long id = AS(int, ids)[row * shape.ids];
  const long to = row * shape.y[0];
  if (id < 0 || id >= shape.vocab) {
    for (long c = first; c < last; ++c) PUT(y, to + c * shape.y[1], 0.0f);
    return;
  }
#ifdef PACKING
  OPEN_WEIGHT
  for (long c = first; c < last; c += 16) {
    float values[16];
    vstore16(weight_16(&weight, id, c), 0, values);
    for (int l = 0; l < 16; ++l) PUT(y, to + (c + l) * shape.y[1], values[l]);
  }
#else
  const long from = id * shape.table[0];
  for (long c = first; c < last; ++c) PUT(y, to + c * shape.y[1], GET(table, from + c * shape.table[1]));
#endif
}
