#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void scatter_add_rows(Call& call) {
  const Tensor& x = input(call, TERN_SCATTER_ADD_ROWS_X);
  const Tensor& index = input(call, TERN_SCATTER_ADD_ROWS_INDEX);
  Output y(call, TERN_SCATTER_ADD_ROWS_Y);
  const std::int64_t width = x.size(1);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const std::int64_t to = index.integer[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; to >= 0 && c < width; ++c) {
      y.add(to * width + c, x.real[static_cast<std::size_t>(r * width + c)]);
    }
  }
}

}  // namespace tern::ops::ref
