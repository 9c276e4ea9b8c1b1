// rms_norm_backward: dweight's sums over blocks of ROWS rows first, as dx may lie where dy does.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/column_sum.clh"

typedef struct {
  long rows, width;
  long dy[2], x[2], weight, rstd, dsum[2], dx[2];
  float weight_offset;
} NormSizes;

// partial[block, width]: sums over the block's rows of dy x rstd.
kernel void rms_norm_dweight(INPUT(dy), INPUT(x), INPUT(rstd),
                               OUTPUT(partial), const NormSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long block = get_global_id(1);
  const long left = s.width - c;
  if (left <= 0) return;
  floatW sum = (floatW)0.0f;
  const long end = min((block + 1) * ROWS, s.rows);
  for (long row = block * ROWS; row < end; ++row) {
    sum += FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
           FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left) * AS(float, rstd)[row * s.rstd];
  }
  SPREAD_FLOATS(partial, block * s.width + c, 1, left, sum);
}

kernel IN_GROUP void rms_norm_dx(INPUT(dy), INPUT(x),
                                INPUT(weight), INPUT(rstd),
                                INPUT(dsum), OUTPUT(dx), const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    floatW products = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      const floatW factor = FETCH(weight, c * s.weight, s.weight, left) + s.weight_offset;
      products += FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) * factor *
                  FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    }
    const float scale = AS(float, rstd)[row * s.rstd];
    const float mean = group_sum(sum_of(products), room) / (float)s.width;
    const float of_x = scale * scale * mean;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      const floatW factor = FETCH(weight, c * s.weight, s.weight, left) + s.weight_offset;
      const floatW g = FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) * factor;
      floatW out = scale * (g - FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left) * of_x);
#if HAS_dsum
      out += FETCH(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
#endif
      SPREAD(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
