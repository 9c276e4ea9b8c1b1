// layer_norm_backward: the sums over blocks of ROWS rows for dweight and dbias first, as dx may lie where dy does.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/column_sum.clh"

typedef struct {
  long rows, width;
  long dy[2], x[2], weight, mean, rstd, dsum[2], dx[2];
} NormSizes;

// of_weight[block, width]: sums over the block's rows of dy (x - mean) rstd; of_bias: of dy. Either may be absent.
kernel void layer_norm_sums(INPUT(dy), INPUT(x), INPUT(mean),
                              INPUT(rstd), OUTPUT(of_weight), OUTPUT(of_bias),
                              const NormSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long block = get_global_id(1);
  const long left = s.width - c;
  if (left <= 0) return;
  floatW weight_sum = (floatW)0.0f;
  floatW bias_sum = (floatW)0.0f;
  const long end = min((block + 1) * ROWS, s.rows);
  for (long row = block * ROWS; row < end; ++row) {
    const floatW upstream = FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left);
    const floatW off = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left) - AS(float, mean)[row * s.mean];
    weight_sum += upstream * (off * AS(float, rstd)[row * s.rstd]);
    bias_sum += upstream;
  }
  if (HAS_dweight) SPREAD_FLOATS(of_weight, block * s.width + c, 1, left, weight_sum);
  if (HAS_dbias) SPREAD_FLOATS(of_bias, block * s.width + c, 1, left, bias_sum);
}

kernel IN_GROUP void layer_norm_dx(INPUT(dy), INPUT(x),
                                  INPUT(weight), INPUT(mean),
                                  INPUT(rstd), INPUT(dsum),
                                  OUTPUT(dx), const NormSizes s) {
  local float room[GROUP];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    const float middle = AS(float, mean)[row * s.mean];
    const float scale = AS(float, rstd)[row * s.rstd];
    floatW sum = (floatW)0.0f;
    floatW products = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      const floatW g = FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
                       FETCH(weight, c * s.weight, s.weight, left);
      sum += g;
      products += g * (FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle);
    }
    const float mean_g = group_sum(sum_of(sum), room) / (float)s.width;
    const float of_c = scale * scale * (group_sum(sum_of(products), room) / (float)s.width);
    for (long c = get_local_id(0) * W; c < s.width; c += GROUP * W) {
      const long left = s.width - c;
      const floatW g = FETCH(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
                       FETCH(weight, c * s.weight, s.weight, left);
      const floatW off = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle;
      floatW out = scale * (g - mean_g - off * of_c);
#if HAS_dsum
      out += FETCH(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
#endif
      SPREAD(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
