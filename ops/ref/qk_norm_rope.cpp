#include "ops/ref/rotate.h"

namespace tern::ops::ref {

void qk_norm_rope(Call& call) {
  const auto attrs = attrs_of<tern_qk_norm_rope_attrs>(call);
  const Tensor& x = input(call, TERN_QK_NORM_ROPE_X);
  const Tensor& weight = input(call, TERN_QK_NORM_ROPE_WEIGHT);
  const Tensor& positions = input(call, TERN_QK_NORM_ROPE_POSITIONS);
  Output y(call, TERN_QK_NORM_ROPE_Y);
  Output rstd(call, TERN_QK_NORM_ROPE_RSTD);
  const std::int64_t heads = x.size(1);
  const std::int64_t head_dim = x.size(2);
  std::vector<double> normal(static_cast<std::size_t>(head_dim));
  std::vector<double> magnitude(static_cast<std::size_t>(head_dim));
  for (std::int64_t row = 0; row < x.size(0) * heads; ++row) {
    const double* head = x.real.data() + row * head_dim;
    double squares = 0.0;
    for (std::int64_t d = 0; d < head_dim; ++d) squares += head[d] * head[d];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(head_dim) + static_cast<double>(attrs.eps));
    rstd.add(row, scale, {.roundings = 4.0 * scale, .terms = head_dim});
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const double offset = attrs.weight_offset;
      const double w = weight.present() ? weight.real[i] : 0.0;
      normal[i] = head[d] * scale * (w + offset);
      magnitude[i] = 2.0 * std::fabs(head[d] * scale) * (std::fabs(w) + std::fabs(offset));
    }
    if (!positions.present()) {
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const auto i = static_cast<std::size_t>(d);
        y.add(row * head_dim + d, normal[i], {.roundings = magnitude[i], .terms = head_dim});
      }
      continue;
    }
    const std::int64_t position = positions.integer[static_cast<std::size_t>(row / heads)];
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const Rotated out = rotate(normal.data(), magnitude.data(), d, input(call, TERN_QK_NORM_ROPE_COS),
                                 input(call, TERN_QK_NORM_ROPE_SIN), position, attrs.interleaved != 0, false);
      y.add(row * head_dim + d, out.value, {.roundings = out.magnitude, .terms = head_dim});
    }
  }
}

}  // namespace tern::ops::ref
