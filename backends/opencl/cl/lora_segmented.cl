// Low-rank adapters where each row has its own: y[r] = b[s] (a[s] x[r]), s = slots[r] (ops/lora_segmented.h). A sum's
// order is that of its row alone.

// As struct Segmented of lora_segmented.cpp.
typedef struct {
  long x[2], a[3], b[3], y[2];  // strides
  long slot;                    // stride of slots
  long rows, out;
  int in, rank, slots;
} Segmented;

// low[row, rank] = a[slot, rank] . x[row]: a group for each.
kernel void shrink(INPUT(x), INPUT(a), INPUT(slots), OUTPUT(low), const Segmented s) {
  local float scratch[GROUP];
  const long row = get_group_id(0), rank = get_group_id(1);
  const int slot = AS(int, slots)[row * s.slot];
  if (slot < 0 || slot >= s.slots) return;
  const long of_x = row * s.x[0], of_a = slot * s.a[0] + rank * s.a[1];
  float sum;
  if (s.x[1] == 1 && s.a[2] == 1) {
    SUM_OVER(part, i, get_local_id(0), s.in, GROUP, GET(x, of_x + i) * GET(a, of_a + i))
    sum = part;
  } else {
    SUM_OVER(part, i, get_local_id(0), s.in, GROUP, GET(x, of_x + i * s.x[1]) * GET(a, of_a + i * s.a[2]))
    sum = part;
  }
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) AS_OUT(float, low)[row * s.rank + rank] = sum;
}

// y[row, o] = b[slot, o] . low[row]: each work-item has COLUMNS outputs of a row. Rows of no slot become 0, or stay.
kernel void expand(INPUT(low), INPUT(b), INPUT(slots), OUTPUT(y), const Segmented s) {
  const long first = get_global_id(0) * COLUMNS, row = get_global_id(1);
  if (first >= s.out || row >= s.rows) return;
  const long end = min(first + COLUMNS, s.out);
  const int slot = AS(int, slots)[row * s.slot];
  if (slot < 0 || slot >= s.slots) {
    for (long o = first; !ADDS_y && o < end; ++o) PUT(y, row * s.y[0] + o * s.y[1], 0.0f);
    return;
  }
  const global float* const left = AS(float, low) + row * s.rank;
  for (long o = first; o < end; ++o) {
    const long of_b = slot * s.b[0] + o * s.b[1];
    float sum;
    if (s.b[2] == 1) {
      SUM_OVER(part, i, 0, s.rank, 1, left[i] * GET(b, of_b + i))
      sum = part;
    } else {
      SUM_OVER(part, i, 0, s.rank, 1, left[i] * GET(b, of_b + i * s.b[2]))
      sum = part;
    }
    PUT_OR_ADD(y, row * s.y[0] + o * s.y[1], sum);
  }
}
