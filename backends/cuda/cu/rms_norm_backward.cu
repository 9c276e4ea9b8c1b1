// rms_norm_backward. A team of threads has some rows one after the other and sums dweight over them, for column_sum. It
// has read dy before it writes dx, which may lie there.
#include "backends/cuda/cu/rows.cuh"

struct RmsNormBackwardSizes {
  long rows, width;
  long rows_of_team;
  long dy[2], x[2], weight, rstd, dsum[2], dx[2];
  float weight_offset;
  int team;
};

CONSTANT int KEPT = 2;  // vectors of a thread

// Where nobody `asks` for dweight, `partial` isn't used. Else partial [teams, width]: sums over the team's rows of dy x
// rstd.
template <int type, bool asks>
DEVICE void rms_norm_backward_kept(Tensor dy, Tensor x, Tensor weight, const float* rstd, Tensor dsum, Tensor dx,
                                   float* partial, const RmsNormBackwardSizes& s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const long begin = team.index * s.rows_of_team;
  if (begin >= s.rows) return;
  const long end = begin + s.rows_of_team < s.rows ? begin + s.rows_of_team : s.rows;
  Floats sums[KEPT];
  UNROLL for (int k = 0; k < KEPT; ++k) sums[k] = floats_of(0.0f);
  for (long row = begin; row < end; ++row) {
    Raw of_dy[KEPT] = {}, of_x[KEPT] = {}, of_dsum[KEPT] = {};
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      if (c >= s.width) continue;
      of_dy[k] = load_raw(type, dy.at, row * s.dy[0] + c);
      of_x[k] = load_raw(type, x.at, row * s.x[0] + c);
      if (dsum.here()) of_dsum[k] = load_raw(type, dsum.at, row * s.dsum[0] + c);
    }
    const float scale = rstd[row * s.rstd];
    Floats g[KEPT];
    Floats products = floats_of(0.0f);
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      const Floats upstream = floats_of(type, of_dy[k]), value = floats_of(type, of_x[k]);
      g[k] = c < s.width ? upstream * (fetch_wide<ANY>(weight, c) + s.weight_offset) : upstream;
      products = products + g[k] * value;
      if constexpr (asks) sums[k] = sums[k] + upstream * value * scale;
    }
    const float mean = team_sum(team, sum_of(products), room) / static_cast<float>(s.width);
    const float along_x = scale * scale * mean;
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      if (c >= s.width) continue;
      Floats out = (g[k] - floats_of(type, of_x[k]) * along_x) * scale;
      if (dsum.here()) out = out + floats_of(type, of_dsum[k]);
      spread_wide<type>(dx, row * s.dx[0] + c, out);
    }
  }
  if constexpr (asks) {
    UNROLL for (int k = 0; k < KEPT; ++k) {
      const long c = column_of(team, k);
      if (c < s.width) spread_wide<F32>(floats_at(partial), team.index * s.width + c, sums[k]);
    }
  }
}

#define RMS_NORM_BACKWARD(name, type, asks, blocks)                                                \
  KERNEL_BOUNDED(name, 512, blocks)                                                                \
  (Tensor dy, Tensor x, Tensor weight, const float* rstd, Tensor dsum, Tensor dx, float* partial, \
   RmsNormBackwardSizes s) {                                                                       \
    rms_norm_backward_kept<type, asks>(dy, x, weight, rstd, dsum, dx, partial, s);                 \
  }
RMS_NORM_BACKWARD(rms_norm_backward_f32, F32, true, 1)
RMS_NORM_BACKWARD(rms_norm_backward_f16, F16, true, 1)
RMS_NORM_BACKWARD(rms_norm_backward_bf16, BF16, true, 1)
RMS_NORM_BACKWARD(rms_norm_dx_f32, F32, false, 1)
RMS_NORM_BACKWARD(rms_norm_dx_f16, F16, false, 1)
RMS_NORM_BACKWARD(rms_norm_dx_bf16, BF16, false, 2)

// Any dtypes and strides, rows of any width. The sums are kept in `partial` itself.
KERNEL(rms_norm_backward_any)
(Tensor dy, Tensor x, Tensor weight, const float* rstd, Tensor dsum, Tensor dx, float* partial,
 RmsNormBackwardSizes s) {
  SHARED float room[32];
  begin_overlapped();
  const Team team = team_of(s.team);
  const Tensor sums = floats_at(partial);
  const long begin = team.index * s.rows_of_team;
  if (begin >= s.rows) return;
  const long end = begin + s.rows_of_team < s.rows ? begin + s.rows_of_team : s.rows;
  for (long row = begin; row < end; ++row) {
    const float scale = rstd[row * s.rstd];
    Floats products = floats_of(0.0f);
    for (long c = column_of(team, 0); c < s.width; c += team.threads * W) {
      const long left = s.width - c;
      const Floats factor = fetch(weight, c * s.weight, s.weight, left) + s.weight_offset;
      const Floats upstream = fetch(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left);
      const Floats value = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
      products = products + upstream * factor * value;
      if (partial == nullptr) continue;
      const long at = team.index * s.width + c;
      const Floats earlier = row == begin ? floats_of(0.0f) : fetch<F32>(sums, at, 1, left);
      spread<F32>(sums, at, 1, left, earlier + upstream * value * scale);
    }
    const float mean = team_sum(team, sum_of(products), room) / static_cast<float>(s.width);
    const float along_x = scale * scale * mean;
    for (long c = column_of(team, 0); c < s.width; c += team.threads * W) {
      const long left = s.width - c;
      const Floats factor = fetch(weight, c * s.weight, s.weight, left) + s.weight_offset;
      const Floats g = fetch(dy, row * s.dy[0] + c * s.dy[1], s.dy[1], left) * factor;
      Floats out = (g - fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left) * along_x) * scale;
      if (dsum.here()) out = out + fetch(dsum, row * s.dsum[0] + c * s.dsum[1], s.dsum[1], left);
      spread(dx, row * s.dx[0] + c * s.dx[1], s.dx[1], left, out);
    }
  }
}
