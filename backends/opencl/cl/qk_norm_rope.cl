// qk_norm_rope. A work-group takes UNITS heads of rows, of which its work-items share the features.
typedef struct {
  long rows, heads, head_dim, half_of;
  long x[3], weight, cos[2], sin[2], y[3], rstd[2], tables;
  float eps, weight_offset;
  int interleaved;
} NormSizes;

inline floatW factor_of(const __global MEMORY(WEIGHT)* weight, long at, long step, long left, const NormSizes* s) {
#if HAS_WEIGHT
  return FETCH(WEIGHT)(weight, at * s->weight, step * s->weight, left) + s->weight_offset;
#else
  return (floatW)s->weight_offset;
#endif
}

__kernel GROUP void qk_norm_rope(const __global MEMORY(X)* x, const __global MEMORY(WEIGHT)* weight,
                                 const __global int* positions, const __global float* cosines,
                                 const __global float* sines, __global MEMORY(Y)* y, __global float* rstd,
                                 const NormSizes s) {
  __local float room[LOCAL];
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
    for (long i = get_local_id(0) * W; i < s.head_dim; i += LOCAL * W) {
      const floatW value = FETCH(X)(x, from + i * s.x[2], s.x[2], s.head_dim - i);
      squares += value * value;
    }
    const float scale = 1.0f / sqrt(sum_of_group(sum_of(squares), room) / (float)s.head_dim + s.eps);
    if (rstd != 0 && get_local_id(0) == 0) rstd[row * s.rstd[0] + head * s.rstd[1]] = scale;
    const long position = s.half_of > 0 ? clamp((long)positions[row], 0L, s.tables - 1) : 0;
    for (long chunk = get_local_id(0); chunk < turned + kept; chunk += LOCAL) {
      if (chunk < turned) {
        const long i = chunk * W;
        const long left = s.half_of - i;
        const long at_u = i * first;
        const long at_w = i * first + second;
        const floatW c = fetch_f32(cosines, position * s.cos[0] + i * s.cos[1], s.cos[1], left);
        const floatW sine = fetch_f32(sines, position * s.sin[0] + i * s.sin[1], s.sin[1], left);
        const floatW u = FETCH(X)(x, from + at_u * s.x[2], first * s.x[2], left) * scale *
                         factor_of(weight, at_u, first, left, &s);
        const floatW w = FETCH(X)(x, from + at_w * s.x[2], first * s.x[2], left) * scale *
                         factor_of(weight, at_w, first, left, &s);
        PUT(Y)(y, to + at_u * s.y[2], first * s.y[2], left, u * c - w * sine);
        PUT(Y)(y, to + at_w * s.y[2], first * s.y[2], left, w * c + u * sine);
      } else {
        const long i = 2 * s.half_of + (chunk - turned) * W;
        const long left = s.head_dim - i;
        const floatW value = FETCH(X)(x, from + i * s.x[2], s.x[2], left) * scale * factor_of(weight, i, 1, left, &s);
        PUT(Y)(y, to + i * s.y[2], s.y[2], left, value);
      }
    }
    MEET;
  }
}
