// rms_norm and its backward. A work-group takes ROWS rows, whose columns its work-items share.
#include "backends/opencl/cl/vectors.clh"

typedef struct {
  long rows, width;
  long x[2], residual[2], weight, y[2], sum[2], rstd;
  float eps, weight_offset;
} NormSizes;

kernel IN_GROUP void rms_norm(INPUT(x), INPUT(residual),
                             INPUT(weight), OUTPUT(y), OUTPUT(sum),
                             OUTPUT(rstd), const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    floatW squares = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      floatW value = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left);
#if HAS_residual
      value = rounded(sum_T, value + FETCH(residual, row * s.residual[0] + c * s.residual[1], s.residual[1], left));
      SPREAD(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left, value);
#endif
      squares += value * value;
    }
    const float scale = 1.0f / sqrt(group_sum(sum_of(squares), room) / (float)s.width + s.eps);
    if (HAS_rstd && get_local_id(0) == 0) AS_OUT(float, rstd)[row * s.rstd] = scale;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
#if HAS_residual
      const floatW value = FETCH(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left);
#else
      const floatW value = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left);
#endif
      const floatW factor = FETCH(weight, c * s.weight, s.weight, left) + s.weight_offset;
      SPREAD(y, row * s.y[0] + c * s.y[1], s.y[1], left, value * scale * factor);
    }
  }
}
