// layer_norm. A work-group takes ROWS rows, whose columns its work-items share.
#include "backends/opencl/cl/vectors.clh"

typedef struct {
  long rows, width;
  long x[2], residual[2], weight, bias, y[2], sum[2], mean, rstd;
  float eps;
} NormSizes;

kernel IN_GROUP void layer_norm(INPUT(x), INPUT(residual),
                               INPUT(weight), INPUT(bias),
                               OUTPUT(y), OUTPUT(sum), OUTPUT(mean),
                               OUTPUT(rstd), const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    floatW total = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      floatW value = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left);
#if HAS_residual
      value = rounded(sum_T, value + FETCH(residual, row * s.residual[0] + c * s.residual[1], s.residual[1], left));
      SPREAD(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left, value);
#endif
      total += value;
    }
#if HAS_residual
#define VALUE(c, left) FETCH(sum, row * s.sum[0] + (c) * s.sum[1], s.sum[1], left)
#else
#define VALUE(c, left) FETCH(x, row * s.x[0] + (c) * s.x[1], s.x[1], left)
#endif
    const float middle = group_sum(sum_of(total), room) / (float)s.width;
    floatW squares = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      float some[W];
      vstoreW(VALUE(c, left) - middle, 0, some);
      for (int i = 0; i < W; ++i) some[i] = i < left ? some[i] : 0.0f;
      const floatW off = vloadW(0, some);
      squares += off * off;
    }
    const float scale = 1.0f / sqrt(group_sum(sum_of(squares), room) / (float)s.width + s.eps);
    if (HAS_rstd && get_local_id(0) == 0) {
      AS_OUT(float, mean)[row * s.mean] = middle;
      AS_OUT(float, rstd)[row * s.rstd] = scale;
    }
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      floatW out = (VALUE(c, left) - middle) * scale * FETCH(weight, c * s.weight, s.weight, left);
#if HAS_bias
      out += FETCH(bias, c * s.bias, s.bias, left);
#endif
      SPREAD(y, row * s.y[0] + c * s.y[1], s.y[1], left, out);
    }
  }
}
