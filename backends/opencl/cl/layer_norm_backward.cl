// layer_norm_backward: the sums over blocks of ROWS rows for dweight and dbias first, as dx may lie where dy does.
typedef struct {
  long rows, width;
  long dy[2], x[2], weight, mean, rstd, dsum[2], dx[2];
} NormSizes;

// of_weight[block, width]: sums over the block's rows of dy (x - mean) rstd; of_bias: of dy. Either may be null.
__kernel void layer_norm_sums(const __global MEMORY(DY)* dy, const __global MEMORY(X)* x, const __global float* mean,
                              const __global float* rstd, __global float* of_weight, __global float* of_bias,
                              const NormSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long block = get_global_id(1);
  const long left = s.width - c;
  if (left <= 0) return;
  floatW weight_sum = (floatW)0.0f;
  floatW bias_sum = (floatW)0.0f;
  const long end = min((block + 1) * ROWS, s.rows);
  for (long row = block * ROWS; row < end; ++row) {
    const floatW upstream = FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left);
    const floatW off = FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left) - mean[row * s.mean];
    weight_sum += upstream * (off * rstd[row * s.rstd]);
    bias_sum += upstream;
  }
  if (of_weight != 0) put_f32(of_weight, block * s.width + c, 1, left, weight_sum);
  if (of_bias != 0) put_f32(of_bias, block * s.width + c, 1, left, bias_sum);
}

__kernel GROUP void layer_norm_dx(const __global MEMORY(DY)* dy, const __global MEMORY(X)* x,
                                  const __global MEMORY(WEIGHT)* weight, const __global float* mean,
                                  const __global float* rstd, const __global MEMORY(DSUM)* dsum,
                                  __global MEMORY(DX)* dx, const NormSizes s) {
  __local float room[LOCAL];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    const float middle = mean[row * s.mean];
    const float scale = rstd[row * s.rstd];
    floatW sum = (floatW)0.0f;
    floatW products = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      const floatW g = FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
                       FETCH(WEIGHT)(weight, c * s.weight, s.weight, left);
      sum += g;
      products += g * (FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle);
    }
    const float mean_g = sum_of_group(sum_of(sum), room) / (float)s.width;
    const float of_c = scale * scale * (sum_of_group(sum_of(products), room) / (float)s.width);
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      const floatW g = FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
                       FETCH(WEIGHT)(weight, c * s.weight, s.weight, left);
      const floatW off = FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle;
      floatW out = scale * (g - mean_g - off * of_c);
#if HAS_DSUM
      out += FETCH(DSUM)(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
#endif
      PUT(DX)(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
