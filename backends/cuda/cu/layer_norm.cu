// layer_norm. A team of threads has each row; where all tensors are of one dtype and wide, it keeps the row in
// registers.
#include "backends/cuda/cu/rows.cuh"

struct LayerNormSizes {
  long rows, width;
  long x[2], residual[2], weight, bias, y[2], sum[2], mean, rstd;
  float eps;
  int team;
};

CONSTANT int KEPT = 4;  // vectors of a thread

DEVICE float layer_norm_scale(const Team& team, const Floats& squares, float middle, const Tensor& mean,
                              const Tensor& rstd, const LayerNormSizes& s, float* room) {
  const float scale = 1.0f / sqrtf(team_sum(team, sum_of(squares), room) / static_cast<float>(s.width) + s.eps);
  if (rstd.here() && team.thread == 0) {
    mean.as<float>()[team.index * s.mean] = middle;
    rstd.as<float>()[team.index * s.rstd] = scale;
  }
  return scale;
}

template <int type>
DEVICE void layer_norm_kept(Tensor x, Tensor residual, Tensor weight, Tensor bias, Tensor y, Tensor sum, Tensor mean,
                            Tensor rstd, const LayerNormSizes& s) {
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
  Floats total = floats_of(0.0f), squares = floats_of(0.0f);
  UNROLL for (int k = 0; k < KEPT; ++k) {
    value[k] = floats_of(type, loaded[k]);
    if (residual.here()) {
      const long c = column_of(team, k);
      value[k] = rounded(type, value[k] + floats_of(type, added[k]));
      if (c < s.width) spread_wide<type>(sum, row * s.sum[0] + c, value[k]);
    }
    total = total + value[k];
  }
  const float middle = team_sum(team, sum_of(total), room) / static_cast<float>(s.width);
  UNROLL for (int k = 0; k < KEPT; ++k) {
    const Floats off = first_of(value[k] - middle, s.width - column_of(team, k));
    squares = squares + off * off;
  }
  const float scale = layer_norm_scale(team, squares, middle, mean, rstd, s, room);
  UNROLL for (int k = 0; k < KEPT; ++k) {
    const long c = column_of(team, k);
    if (c >= s.width) continue;
    Floats out = (value[k] - middle) * scale * fetch_wide<ANY>(weight, c);
    if (bias.here()) out = out + fetch_wide<ANY>(bias, c);
    spread_wide<type>(y, row * s.y[0] + c, out);
  }
}

#define LAYER_NORM(name, type)                                                                            \
  KERNEL_BOUNDED(name, 512, 1)                                                                            \
  (Tensor x, Tensor residual, Tensor weight, Tensor bias, Tensor y, Tensor sum, Tensor mean, Tensor rstd, \
   LayerNormSizes s) {                                                                                    \
    layer_norm_kept<type>(x, residual, weight, bias, y, sum, mean, rstd, s);                              \
  }
LAYER_NORM(layer_norm_f32, F32)
LAYER_NORM(layer_norm_f16, F16)
LAYER_NORM(layer_norm_bf16, BF16)

// Any dtypes and strides, rows of any width: read again from sum, or x, for each of the sums.
KERNEL(layer_norm_any)
(Tensor x, Tensor residual, Tensor weight, Tensor bias, Tensor y, Tensor sum, Tensor mean, Tensor rstd,
 LayerNormSizes s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long row = team.index;
  if (row >= s.rows) return;
  const long step = static_cast<long>(team.threads) * W;
  Floats total = floats_of(0.0f), squares = floats_of(0.0f);
  for (long c = column_of(team, 0); c < s.width; c += step) {
    const long left = s.width - c;
    Floats value = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    if (residual.here()) {
      value = value + fetch(residual, row * s.residual[0] + c * s.residual[1], s.residual[1], left);
      value = rounded(sum.dtype, value);
      spread(sum, row * s.sum[0] + c * s.sum[1], s.sum[1], left, value);
    }
    total = total + value;
  }
  const Tensor source = residual.here() ? sum : x;
  const long source_row = row * (residual.here() ? s.sum[0] : s.x[0]);
  const long source_step = residual.here() ? s.sum[1] : s.x[1];
  const float middle = team_sum(team, sum_of(total), room) / static_cast<float>(s.width);
  for (long c = column_of(team, 0); c < s.width; c += step) {
    const long left = s.width - c;
    const Floats off = first_of(fetch(source, source_row + c * source_step, source_step, left) - middle, left);
    squares = squares + off * off;
  }
  const float scale = layer_norm_scale(team, squares, middle, mean, rstd, s, room);
  for (long c = column_of(team, 0); c < s.width; c += step) {
    const long left = s.width - c;
    const Floats off = fetch(source, source_row + c * source_step, source_step, left) - middle;
    Floats out = off * scale * fetch(weight, c * s.weight, s.weight, left);
    if (bias.here()) out = out + fetch(bias, c * s.bias, s.bias, left);
    spread(y, row * s.y[0] + c * s.y[1], s.y[1], left, out);
  }
}
