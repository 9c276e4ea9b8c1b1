// qk_norm_rope_backward: dn = rope(dy, inverse), then the gradient of the norm of each head. The sums over blocks of
// UNITS heads of rows for dweight come first, as dx may lie where dy does.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/column_sum.clh"

typedef struct {
  long rows, heads, head_dim, half_of;
  long dy[3], x[3], weight, rstd[2], cos[2], sin[2], dx[3], tables;
  float weight_offset;
  int interleaved;
} NormSizes;

// W pairs of dn, or W features behind the pairs: then both are of the same features, and the second is not used.
typedef struct {
  long at_u, at_w, step, left;
  floatW u, w;
} Turned;

static inline Turned turned_of(const global uchar* dy, const global int* positions, const global uchar* cosines,
                               const global uchar* sines, long row, long head, long chunk, const NormSizes* s) {
  const long pairs = (s->half_of + W - 1) / W;
  const long from = row * s->dy[0] + head * s->dy[1];
  Turned out;
  if (chunk < pairs) {
    const long i = chunk * W;
    const long position = clamp((long)positions[row], 0L, s->tables - 1);
    out.left = s->half_of - i;
    out.step = s->interleaved != 0 ? 2 : 1;
    out.at_u = i * out.step;
    out.at_w = out.at_u + (s->interleaved != 0 ? 1 : s->half_of);
    const floatW c = fetch(F32, cosines, position * s->cos[0] + i * s->cos[1], s->cos[1], out.left);
    const floatW sine = fetch(F32, sines, position * s->sin[0] + i * s->sin[1], s->sin[1], out.left);
    const floatW u = fetch(dy_T, dy, from + out.at_u * s->dy[2], out.step * s->dy[2], out.left);
    const floatW w = fetch(dy_T, dy, from + out.at_w * s->dy[2], out.step * s->dy[2], out.left);
    out.u = u * c + w * sine;
    out.w = w * c - u * sine;
  } else {
    const long i = 2 * s->half_of + (chunk - pairs) * W;
    out.left = s->head_dim - i;
    out.step = 1;
    out.at_u = i;
    out.at_w = i;
    out.u = fetch(dy_T, dy, from + i * s->dy[2], s->dy[2], out.left);
    out.w = (floatW)0.0f;
  }
  return out;
}

static inline floatW factor_of(const global uchar* weight, long at, long step, long left, const NormSizes* s) {
#if HAS_weight
  return fetch(weight_T, weight, at * s->weight, step * s->weight, left) + s->weight_offset;
#else
  return (floatW)s->weight_offset;
#endif
}
static inline floatW x_of(const global uchar* x, long row, long head, long at, long step, long left,
                   const NormSizes* s) {
  return fetch(x_T, x, row * s->x[0] + head * s->x[1] + at * s->x[2], step * s->x[2], left);
}
static inline long chunks_of(const NormSizes* s) {
  return (s->half_of + W - 1) / W + (s->head_dim - 2 * s->half_of + W - 1) / W;
}

// partial[block, head_dim]: sums over the block's heads of rows of dn x rstd.
kernel void qk_norm_rope_dweight(INPUT(dy), INPUT(x),
                                   INPUT(rstd), INPUT(positions),
                                   INPUT(cosines), INPUT(sines),
                                   OUTPUT(partial), const NormSizes s) {
  const long chunk = get_global_id(0);
  const long block = get_global_id(1);
  if (chunk >= chunks_of(&s)) return;
  const long end = min((block + 1) * UNITS, s.rows * s.heads);
  floatW sum_u = (floatW)0.0f;
  floatW sum_w = (floatW)0.0f;
  Turned dn;
  for (long unit = block * UNITS; unit < end; ++unit) {
    const long row = unit / s.heads;
    const long head = unit % s.heads;
    const float scale = AS(float, rstd)[row * s.rstd[0] + head * s.rstd[1]];
    dn = turned_of(AT(dy), AS(int, positions), AT(cosines), AT(sines), row, head, chunk, &s);
    sum_u += dn.u * (x_of(AT(x), row, head, dn.at_u, dn.step, dn.left, &s) * scale);
    sum_w += dn.w * (x_of(AT(x), row, head, dn.at_w, dn.step, dn.left, &s) * scale);
  }
  SPREAD_FLOATS(partial, block * s.head_dim + dn.at_u, dn.step, dn.left, sum_u);
  if (dn.at_w != dn.at_u) SPREAD_FLOATS(partial, block * s.head_dim + dn.at_w, dn.step, dn.left, sum_w);
}

kernel IN_GROUP void qk_norm_rope_dx(INPUT(dy), INPUT(x),
                                    INPUT(weight), INPUT(rstd),
                                    INPUT(positions), INPUT(cosines),
                                    INPUT(sines), OUTPUT(dx), const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * UNITS, s.rows * s.heads);
  for (long unit = (long)get_group_id(0) * UNITS; unit < end; ++unit) {
    const long row = unit / s.heads;
    const long head = unit % s.heads;
    const float scale = AS(float, rstd)[row * s.rstd[0] + head * s.rstd[1]];
    floatW products = (floatW)0.0f;
    for (long chunk = get_local_id(0); chunk < chunks_of(&s); chunk += GROUP) {
      const Turned dn = turned_of(AT(dy), AS(int, positions), AT(cosines), AT(sines), row, head, chunk, &s);
      products += dn.u * factor_of(AT(weight), dn.at_u, dn.step, dn.left, &s) *
                  x_of(AT(x), row, head, dn.at_u, dn.step, dn.left, &s);
      if (dn.at_w != dn.at_u) {
        products += dn.w * factor_of(AT(weight), dn.at_w, dn.step, dn.left, &s) *
                    x_of(AT(x), row, head, dn.at_w, dn.step, dn.left, &s);
      }
    }
    const float of_x = scale * scale * (group_sum(sum_of(products), room) / (float)s.head_dim);
    const long to = row * s.dx[0] + head * s.dx[1];
    for (long chunk = get_local_id(0); chunk < chunks_of(&s); chunk += GROUP) {
      const Turned dn = turned_of(AT(dy), AS(int, positions), AT(cosines), AT(sines), row, head, chunk, &s);
      const floatW u = scale * (dn.u * factor_of(AT(weight), dn.at_u, dn.step, dn.left, &s) -
                                x_of(AT(x), row, head, dn.at_u, dn.step, dn.left, &s) * of_x);
      SPREAD(dx, to + dn.at_u * s.dx[2], dn.step * s.dx[2], dn.left, u);
      if (dn.at_w == dn.at_u) continue;
      const floatW w = scale * (dn.w * factor_of(AT(weight), dn.at_w, dn.step, dn.left, &s) -
                                x_of(AT(x), row, head, dn.at_w, dn.step, dn.left, &s) * of_x);
      SPREAD(dx, to + dn.at_w * s.dx[2], dn.step * s.dx[2], dn.left, w);
    }
    MEET;
  }
}
