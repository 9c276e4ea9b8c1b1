// layer_norm. A work-group takes ROWS rows, whose columns its work-items share.
typedef struct {
  long rows, width;
  long x[2], residual[2], weight, bias, y[2], sum[2], mean, rstd;
  float eps;
} NormSizes;

__kernel GROUP void layer_norm(const __global MEMORY(X)* x, const __global MEMORY(RESIDUAL)* residual,
                               const __global MEMORY(WEIGHT)* weight, const __global MEMORY(BIAS)* bias,
                               __global MEMORY(Y)* y, __global MEMORY(SUM)* sum, __global float* mean,
                               __global float* rstd, const NormSizes s) {
  __local float room[LOCAL];
  const long end = min((long)(get_group_id(0) + 1) * ROWS, s.rows);
  for (long row = (long)get_group_id(0) * ROWS; row < end; ++row) {
    floatW total = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      floatW value = FETCH(X)(x, row * s.x[0] + c * s.x[1], s.x[1], left);
#if HAS_RESIDUAL
      value = ROUNDED(SUM)(value + FETCH(RESIDUAL)(residual, row * s.residual[0] + c * s.residual[1], s.residual[1], left));
      PUT(SUM)(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left, value);
#endif
      total += value;
    }
#if HAS_RESIDUAL
#define VALUE(c, left) FETCH(SUM)(sum, row * s.sum[0] + (c) * s.sum[1], s.sum[1], left)
#else
#define VALUE(c, left) FETCH(X)(x, row * s.x[0] + (c) * s.x[1], s.x[1], left)
#endif
    const float middle = sum_of_group(sum_of(total), room) / (float)s.width;
    floatW squares = (floatW)0.0f;
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      float some[W];
      vstoreW(VALUE(c, left) - middle, 0, some);
      for (int i = 0; i < W; ++i) some[i] = i < left ? some[i] : 0.0f;
      const floatW off = vloadW(0, some);
      squares += off * off;
    }
    const float scale = 1.0f / sqrt(sum_of_group(sum_of(squares), room) / (float)s.width + s.eps);
    if (rstd != 0 && get_local_id(0) == 0) {
      mean[row * s.mean] = middle;
      rstd[row * s.rstd] = scale;
    }
    for (long c = get_local_id(0) * W; c < s.width; c += LOCAL * W) {
      const long left = s.width - c;
      floatW out = (VALUE(c, left) - middle) * scale * FETCH(WEIGHT)(weight, c * s.weight, s.weight, left);
#if HAS_BIAS
      out += FETCH(BIAS)(bias, c * s.bias, s.bias, left);
#endif
      PUT(Y)(y, row * s.y[0] + c * s.y[1], s.y[1], left, out);
    }
  }
}
