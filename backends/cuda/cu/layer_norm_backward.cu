// layer_norm_backward. A team of threads has some rows one after the other and sums dweight and dbias over them, for
// column_sum. It has read dy before it writes dx, which may lie there.
#include "backends/cuda/cu/rows.cuh"

struct LayerNormBackwardSizes {
  long rows, width;
  long rows_of_team;
  long dy[2], x[2], weight, mean, rstd, dsum[2], dx[2];
  int team;
};

CONSTANT int KEPT = 2;  // vectors of a thread

// of_weight, of_bias [teams, width], each null where nobody asks for it: sums over the team's rows of
// dy (x - mean) rstd, and of dy.
template <int type>
DEVICE void layer_norm_backward_kept(Tensor dy, Tensor x, Tensor weight, const float* mean, const float* rstd,
                                     Tensor dsum, Tensor dx, float* of_weight, float* of_bias,
                                     const LayerNormBackwardSizes& s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long begin = team.index * s.rows_of_team;
  if (begin >= s.rows) return;
  const long end = begin + s.rows_of_team < s.rows ? begin + s.rows_of_team : s.rows;
  Floats weight_sum[KEPT], bias_sum[KEPT];
  UNROLL for (int k = 0; k < KEPT; ++k) weight_sum[k] = bias_sum[k] = floats_of(0.0f);
  for (long row = begin; row < end; ++row) {
    Raw of_dy[KEPT] = {}, of_x[KEPT] = {}, of_dsum[KEPT] = {};
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      if (c >= s.width) continue;
      of_dy[k] = load_raw(type, dy.at, row * s.dy[0] + c);
      of_x[k] = load_raw(type, x.at, row * s.x[0] + c);
      if (dsum.here()) of_dsum[k] = load_raw(type, dsum.at, row * s.dsum[0] + c);
    }
    const float middle = mean[row * s.mean], scale = rstd[row * s.rstd];
    Floats g[KEPT], off[KEPT];
    Floats sum = floats_of(0.0f), products = floats_of(0.0f);
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      const Floats upstream = floats_of(type, of_dy[k]);
      g[k] = c < s.width ? upstream * fetch_wide<ANY>(weight, c) : floats_of(0.0f);
      off[k] = floats_of(type, of_x[k]) - middle;
      sum = sum + g[k];
      products = products + g[k] * off[k];
      weight_sum[k] = weight_sum[k] + upstream * (off[k] * scale);
      bias_sum[k] = bias_sum[k] + upstream;
    }
    const float mean_g = team_sum(team, sum_of(sum), room) / static_cast<float>(s.width);
    const float along_x = scale * scale * (team_sum(team, sum_of(products), room) / static_cast<float>(s.width));
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      if (c >= s.width) continue;
      Floats out = (g[k] - mean_g - off[k] * along_x) * scale;
      if (dsum.here()) out = out + floats_of(type, of_dsum[k]);
      spread_wide<type>(dx, row * s.dx[0] + c, out);
    }
  }
  UNROLL for (int k = 0; k < KEPT; ++k) {
    const long c = column_of(team, k);
    if (c >= s.width) continue;
    if (of_weight != nullptr) spread_wide<F32>(floats_at(of_weight), team.index * s.width + c, weight_sum[k]);
    if (of_bias != nullptr) spread_wide<F32>(floats_at(of_bias), team.index * s.width + c, bias_sum[k]);
  }
}

#define LAYER_NORM_BACKWARD(name, type)                                                          \
  KERNEL_BOUNDED(name, 512, 1)                                                                   \
  (Tensor dy, Tensor x, Tensor weight, const float* mean, const float* rstd, Tensor dsum,        \
   Tensor dx, float* of_weight, float* of_bias, LayerNormBackwardSizes s) {                      \
    layer_norm_backward_kept<type>(dy, x, weight, mean, rstd, dsum, dx, of_weight, of_bias, s); \
  }
LAYER_NORM_BACKWARD(layer_norm_backward_f32, F32)
LAYER_NORM_BACKWARD(layer_norm_backward_f16, F16)
LAYER_NORM_BACKWARD(layer_norm_backward_bf16, BF16)

// Adds a row's part to sums that are kept in memory; the first row's part begins them.
DEVICE void add_to_sums(float* sums, long at, long left, bool first, const Floats& value) {
  if (sums == nullptr) return;
  const Tensor memory = floats_at(sums);
  spread<F32>(memory, at, 1, left, first ? value : fetch<F32>(memory, at, 1, left) + value);
}

// Any dtypes and strides, rows of any width.
KERNEL(layer_norm_backward_any)
(Tensor dy, Tensor x, Tensor weight, const float* mean, const float* rstd, Tensor dsum, Tensor dx, float* of_weight,
 float* of_bias, LayerNormBackwardSizes s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long begin = team.index * s.rows_of_team;
  if (begin >= s.rows) return;
  const long end = begin + s.rows_of_team < s.rows ? begin + s.rows_of_team : s.rows;
  const long step = static_cast<long>(team.threads) * W;
  for (long row = begin; row < end; ++row) {
    const float middle = mean[row * s.mean], scale = rstd[row * s.rstd];
    Floats sum = floats_of(0.0f), products = floats_of(0.0f);
    for (long c = column_of(team, 0); c < s.width; c += step) {
      const long left = s.width - c;
      const Floats upstream = fetch(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left);
      const Floats g = upstream * fetch(weight, c * s.weight, s.weight, left);
      const Floats off = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle;
      sum = sum + g;
      products = products + g * off;
      add_to_sums(of_weight, team.index * s.width + c, left, row == begin, upstream * (off * scale));
      add_to_sums(of_bias, team.index * s.width + c, left, row == begin, upstream);
    }
    const float mean_g = team_sum(team, sum_of(sum), room) / static_cast<float>(s.width);
    const float along_x = scale * scale * (team_sum(team, sum_of(products), room) / static_cast<float>(s.width));
    for (long c = column_of(team, 0); c < s.width; c += step) {
      const long left = s.width - c;
      const Floats g = fetch(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) *
                       fetch(weight, c * s.weight, s.weight, left);
      const Floats off = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left) - middle;
      Floats out = (g - mean_g - off * along_x) * scale;
      if (dsum.here()) out = out + fetch(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
      spread(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
