// qk_norm_rope. A work-group takes UNITS heads of rows, of which its work-items share the features.
#include "backends/opencl/cl/vectors.clh"

typedef struct {
  long rows, heads, head_dim, half_of;
  long x[3], weight, cos[2], sin[2], y[3], rstd[2], tables;
  float eps, weight_offset;
  int interleaved;
} NormSizes;

static inline floatW factor_of(const global uchar* weight, long at, long step, long left, const NormSizes* s) {
#if HAS_weight
  return fetch(weight_T, weight, at * s->weight, step * s->weight, left) + s->weight_offset;
#else
  return (floatW)s->weight_offset;
#endif
}

kernel IN_GROUP void qk_norm_rope(INPUT(x), INPUT(weight),
                                 INPUT(positions), INPUT(cosines),
                                 INPUT(sines), OUTPUT(y), OUTPUT(rstd),
                                 const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * UNITS, s.rows * s.heads);
  const long turned = (s.half_of + W - 1) / W;
  const long kept = (s.head_dim - 2 * s.half_of + W - 1) / W;
  const long first = s.interleaved != 0 ? 2 : 1;
  const long second = s.interleaved != 0 ? 1 : s.half_of;
  for (long unit = (long)get_group_id(0) * UNITS; unit < end; ++unit) {
    const long row = unit / s.heads;
    const long head = unit % s.heads;
    const long from = row * s.x[0] + head * s.x[1];
    const long to = row * s.y[0] + head * s.y[1];
    floatW squares = (floatW)0.0f;
    for (long i = get_local_id(0) * W; i < s.head_dim; i += GROUP * W) {
      const floatW value = FETCH(x, from + i * s.x[2], s.x[2], s.head_dim - i);
      squares += value * value;
    }
    const float scale = 1.0f / sqrt(group_sum(sum_of(squares), room) / (float)s.head_dim + s.eps);
    if (HAS_rstd && get_local_id(0) == 0) AS_OUT(float, rstd)[row * s.rstd[0] + head * s.rstd[1]] = scale;
    const long position = s.half_of > 0 ? clamp((long)AS(int, positions)[row], 0L, s.tables - 1) : 0;
    for (long chunk = get_local_id(0); chunk < turned + kept; chunk += GROUP) {
      if (chunk < turned) {
        const long i = chunk * W;
        const long left = s.half_of - i;
        const long at_u = i * first;
        const long at_w = i * first + second;
        const floatW c = FLOATS(cosines, position * s.cos[0] + i * s.cos[1], s.cos[1], left);
        const floatW sine = FLOATS(sines, position * s.sin[0] + i * s.sin[1], s.sin[1], left);
        const floatW u = FETCH(x, from + at_u * s.x[2], first * s.x[2], left) * scale *
                         factor_of(AT(weight), at_u, first, left, &s);
        const floatW w = FETCH(x, from + at_w * s.x[2], first * s.x[2], left) * scale *
                         factor_of(AT(weight), at_w, first, left, &s);
        SPREAD(y, to + at_u * s.y[2], first * s.y[2], left, u * c - w * sine);
        SPREAD(y, to + at_w * s.y[2], first * s.y[2], left, w * c + u * sine);
      } else {
        const long i = 2 * s.half_of + (chunk - turned) * W;
        const long left = s.head_dim - i;
        const floatW value = FETCH(x, from + i * s.x[2], s.x[2], left) * scale * factor_of(AT(weight), i, 1, left, &s);
        SPREAD(y, to + i * s.y[2], s.y[2], left, value);
      }
    }
    MEET;
  }
}
