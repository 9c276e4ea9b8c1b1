#include "ops/ref/rotate.h"

namespace tern::ops::ref {

void qk_norm_rope_backward(Call& call) {
  const auto attrs = attrs_of<tern_qk_norm_rope_backward_attrs>(call);
  const Tensor& dy = input(call, TERN_QK_NORM_ROPE_BACKWARD_DY);
  const Tensor& x = input(call, TERN_QK_NORM_ROPE_BACKWARD_X);
  const Tensor& weight = input(call, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT);
  const Tensor& rstd = input(call, TERN_QK_NORM_ROPE_BACKWARD_RSTD);
  const Tensor& positions = input(call, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS);
  const Tensor& cos = input(call, TERN_QK_NORM_ROPE_BACKWARD_COS);
  const Tensor& sin = input(call, TERN_QK_NORM_ROPE_BACKWARD_SIN);
  Output dx(call, TERN_QK_NORM_ROPE_BACKWARD_DX);
  Output dweight(call, TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT);
  const std::int64_t heads = x.size(1);
  const std::int64_t head_dim = x.size(2);
  std::vector<double> absolute(static_cast<std::size_t>(head_dim));
  std::vector<Rotated> dnormal(static_cast<std::size_t>(head_dim));
  for (std::int64_t row = 0; row < x.size(0) * heads; ++row) {
    const double* head = x.real.data() + row * head_dim;
    const double* upstream = dy.real.data() + row * head_dim;
    const double scale = rstd.real[static_cast<std::size_t>(row)];
    const bool turns = positions.present();
    const std::int64_t position = turns ? positions.integer[static_cast<std::size_t>(row / heads)] : 0;
    for (std::int64_t d = 0; d < head_dim; ++d) absolute[static_cast<std::size_t>(d)] = std::fabs(upstream[d]);
    double mean = 0.0;
    double mean_magnitude = 0.0;
    auto factor = [&](std::int64_t d) {
      const double w = weight.present() ? weight.real[static_cast<std::size_t>(d)] : 0.0;
      return w + static_cast<double>(attrs.weight_offset);
    };
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const Rotated back = turns
                               ? rotate(upstream, absolute.data(), d, cos, sin, position, attrs.interleaved != 0, true)
                               : Rotated{upstream[d], absolute[static_cast<std::size_t>(d)]};
      dnormal[static_cast<std::size_t>(d)] = back;
      mean += back.value * factor(d) * head[d] / static_cast<double>(head_dim);
      mean_magnitude += std::fabs(back.magnitude * factor(d) * head[d]) / static_cast<double>(head_dim);
    }
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const Rotated& back = dnormal[static_cast<std::size_t>(d)];
      const double pulled = head[d] * scale * scale;
      const double roundings =
          2.0 * std::fabs(scale) * (back.magnitude * std::fabs(factor(d)) + std::fabs(pulled) * mean_magnitude);
      dx.add(row * head_dim + d, scale * (back.value * factor(d) - pulled * mean),
             {.roundings = roundings, .terms = head_dim});
      dweight.add(d, back.value * head[d] * scale, {.roundings = 2.0 * back.magnitude * std::fabs(head[d] * scale)});
    }
  }
}

}  // namespace tern::ops::ref
