#include "ops/ref/rotate.h"

namespace tern::ops::ref {

void rope(Call& call) {
  const auto attrs = attrs_of<tern_rope_attrs>(call);
  const Tensor& x = input(call, TERN_ROPE_X);
  const Tensor& positions = input(call, TERN_ROPE_POSITIONS);
  Output y(call, TERN_ROPE_Y);
  const std::int64_t heads = x.size(1);
  const std::int64_t head_dim = x.size(2);
  std::vector<double> magnitude(static_cast<std::size_t>(head_dim));
  for (std::int64_t row = 0; row < x.size(0) * heads; ++row) {
    const double* head = x.real.data() + row * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d) magnitude[static_cast<std::size_t>(d)] = std::fabs(head[d]);
    const std::int64_t position = positions.integer[static_cast<std::size_t>(row / heads)];
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const Rotated out = rotate(head, magnitude.data(), d, input(call, TERN_ROPE_COS), input(call, TERN_ROPE_SIN),
                                 position, attrs.interleaved != 0, attrs.inverse != 0);
      y.add(row * head_dim + d, out.value, {.roundings = out.magnitude});
    }
  }
}

}  // namespace tern::ops::ref
