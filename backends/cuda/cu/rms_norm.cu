// rms_norm. A team of threads has each row; where all tensors are of one dtype and wide, it keeps the row in registers.
#include "backends/cuda/cu/rows.cuh"

struct RmsNormSizes {
  long rows, width;
  long x[2], residual[2], weight, y[2], sum[2], rstd;
  float eps, weight_offset;
  int team;
};

CONSTANT int KEPT = 4;  // vectors of a thread

DEVICE float rms_scale(const Team& team, const Floats& squares, const Tensor& rstd, const RmsNormSizes& s,
                       float* room) {
  const float scale = 1.0f / sqrtf(team_sum(team, sum_of(squares), room) / static_cast<float>(s.width) + s.eps);
  if (rstd.here() && team.thread == 0) rstd.as<float>()[team.index * s.rstd] = scale;
  return scale;
}

template <int type>
DEVICE void rms_norm_kept(Tensor x, Tensor residual, Tensor weight, Tensor y, Tensor sum, Tensor rstd,
                          const RmsNormSizes& s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long row = team.index;
  if (row >= s.rows) return;
  Raw loaded[KEPT] = {}, added[KEPT] = {};
  UNROLL for (int k = 0; k < KEPT; ++k) {
    const long c = column_of(team, k);
    if (c >= s.width) continue;
    loaded[k] = load_raw(type, x.at, row * s.x[0] + c);
    if (residual.here()) added[k] = load_raw(type, residual.at, row * s.residual[0] + c);
  }
  Floats value[KEPT];
  Floats squares = floats_of(0.0f);
  UNROLL for (int k = 0; k < KEPT; ++k) {
    value[k] = floats_of(type, loaded[k]);
    if (residual.here()) {
      const long c = column_of(team, k);
      value[k] = rounded(type, value[k] + floats_of(type, added[k]));
      if (c < s.width) spread_wide<type>(sum, row * s.sum[0] + c, value[k]);
    }
    squares = squares + value[k] * value[k];
  }
  const float scale = rms_scale(team, squares, rstd, s, room);
  UNROLL for (int k = 0; k < KEPT; ++k) {
    const long c = column_of(team, k);
    if (c >= s.width) continue;
    const Floats factor = fetch_wide<ANY>(weight, c) + s.weight_offset;
    spread_wide<type>(y, row * s.y[0] + c, value[k] * scale * factor);
  }
}

#define RMS_NORM(name, type, blocks)                                                              \
  KERNEL_BOUNDED(name, 512, blocks)                                                              \
  (Tensor x, Tensor residual, Tensor weight, Tensor y, Tensor sum, Tensor rstd, RmsNormSizes s) { \
    rms_norm_kept<type>(x, residual, weight, y, sum, rstd, s);                                   \
  }
RMS_NORM(rms_norm_f32, F32, 1)
RMS_NORM(rms_norm_f16, F16, 2)
RMS_NORM(rms_norm_bf16, BF16, 2)

// Any dtypes and strides, rows of any width: read again from sum, or x, once the scale is known.
KERNEL(rms_norm_any)(Tensor x, Tensor residual, Tensor weight, Tensor y, Tensor sum, Tensor rstd, RmsNormSizes s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long row = team.index;
  if (row >= s.rows) return;
  Floats squares = floats_of(0.0f);
  for (long c = column_of(team, 0); c < s.width; c += team.threads * W) {
    const long left = s.width - c;
    Floats value = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    if (residual.here()) {
      value = value + fetch(residual, row * s.residual[0] + c * s.residual[1], s.residual[1], left);
      value = rounded(sum.dtype, value);
      spread(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left, value);
    }
    squares = squares + value * value;
  }
  const float scale = rms_scale(team, squares, rstd, s, room);
  for (long c = column_of(team, 0); c < s.width; c += team.threads * W) {
    const long left = s.width - c;
    const Floats value = residual.here() ? fetch(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left)
                                         : fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    const Floats factor = fetch(weight, c * s.weight, s.weight, left) + s.weight_offset;
    spread(y, row * s.y[0] + c * s.y[1], s.y[1], left, value * scale * factor);
  }
}
