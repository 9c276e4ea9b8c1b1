// rms_norm_backward: dweight's sums over blocks of ROWS rows first, as dx may lie where dy does.
typedef struct {
  long rows, width;
  long dy[2], x[2], weight, rstd, dsum[2], dx[2];
  float weight_offset;
} NormSizes;

// partial[block, width]: sums over the block's rows of dy x rstd.
__kernel void rms_norm_dweight(const __global MEMORY(DY)* dy, const __global MEMORY(X)* x, const __global float* rstd,
                               __global float* partial, const NormSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long block = get_global_id(1);
  const long left = s.width - c;
  if (left <= 0) return;
  floatW sum = (floatW)0.0f;
  const long end = min((block + 1) * ROWS, s.rows);
  for (long row = block * ROWS; row < end; ++row) {
    sum += FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
           FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left) * rstd[row * s.rstd];
  }
  put_f32(partial, block * s.width + c, 1, left, sum);
}

__kernel GROUP void rms_norm_dx(const __global MEMORY(DY)* dy, const __global MEMORY(X)* x,
                                const __global MEMORY(WEIGHT)* weight, const __global float* rstd,
                                const __global MEMORY(DSUM)* dsum, __global MEMORY(DX)* dx, const NormSizes s) {
  __local float room[LOCAL];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    floatW products = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      const floatW factor = FETCH(WEIGHT)(weight, c * s.weight, s.weight, left) + s.weight_offset;
      products += FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) * factor *
                  FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    }
    const float scale = rstd[row * s.rstd];
    const float mean = sum_of_group(sum_of(products), room) / (float)s.width;
    const float of_x = scale * scale * mean;
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      const floatW factor = FETCH(WEIGHT)(weight, c * s.weight, s.weight, left) + s.weight_offset;
      const floatW g = FETCH(DY)(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) * factor;
      floatW out = scale * (g - FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left) * of_x);
#if HAS_DSUM
      out += FETCH(DSUM)(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
#endif
      PUT(DX)(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
