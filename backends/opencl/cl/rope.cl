// rope. A work-group takes ROWS rows, whose pairs of features its work-items share. Pair i of a head is features
// (i, i + rotary / 2), or (2 i, 2 i + 1) where they are interleaved.
#include "backends/opencl/cl/vectors.clh"

typedef struct {
  long rows, heads, head_dim, half_of;
  long x[3], cos[2], sin[2], y[3], positions, tables;
  int interleaved, inverse, accumulate;
} RopeSizes;

kernel IN_GROUP void rope(INPUT(x), INPUT(positions), INPUT(cosines),
                         INPUT(sines), OUTPUT(y), const RopeSizes s) {
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  const long turned = (s.half_of + W - 1) / W;
  const long kept = (s.head_dim - 2 * s.half_of + W - 1) / W;
  const long first = s.interleaved != 0 ? 2 : 1;  // how far pairs lie apart, in features
  const long second = s.interleaved != 0 ? 1 : s.half_of;
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    const long position = clamp((long)AS(int, positions)[row * s.positions], 0L, s.tables - 1);
    for (long item = get_local_id(0); item < s.heads * (turned + kept); item += GROUP) {
      const long head = item / (turned + kept);
      const long chunk = item % (turned + kept);
      const long from = row * s.x[0] + head * s.x[1];
      const long to = row * s.y[0] + head * s.y[1];
      if (chunk < turned) {
        const long i = chunk * W;
        const long left = s.half_of - i;
        const floatW c = FLOATS(cosines, position * s.cos[0] + i * s.cos[1], s.cos[1], left);
        floatW sine = FLOATS(sines, position * s.sin[0] + i * s.sin[1], s.sin[1], left);
        sine = s.inverse != 0 ? -sine : sine;
        const floatW u = FETCH(x, from + i * first * s.x[2], first * s.x[2], left);
        const floatW w = FETCH(x, from + (i * first + second) * s.x[2], first * s.x[2], left);
        floatW new_u = u * c - w * sine;
        floatW new_w = w * c + u * sine;
        if (s.accumulate != 0) {
          new_u += FETCH(y, to + i * first * s.y[2], first * s.y[2], left);
          new_w += FETCH(y, to + (i * first + second) * s.y[2], first * s.y[2], left);
        }
        SPREAD(y, to + i * first * s.y[2], first * s.y[2], left, new_u);
        SPREAD(y, to + (i * first + second) * s.y[2], first * s.y[2], left, new_w);
      } else {
        const long i = 2 * s.half_of + (chunk - turned) * W;
        const long left = s.head_dim - i;
        floatW value = FETCH(x, from + i * s.x[2], s.x[2], left);
        if (s.accumulate != 0) value += FETCH(y, to + i * s.y[2], s.y[2], left);
        SPREAD(y, to + i * s.y[2], s.y[2], left, value);
      }
    }
  }
}
