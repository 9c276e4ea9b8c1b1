#include "base/dtype.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void gather_rows(Call& call) {
  const Tensor& x = input(call, TERN_GATHER_ROWS_X);
  const Tensor& index = input(call, TERN_GATHER_ROWS_INDEX);
  Tensor& y = call.args[TERN_GATHER_ROWS_Y];
  const std::int64_t width = x.size(0) > 0 ? num_elements(x.desc) / x.size(0) : 0;
  const bool real = dtype_info(x.desc.dtype).floating;
  if (real) {
    y.real.assign(static_cast<std::size_t>(num_elements(y.desc)), 0.0);
  } else {
    y.integer.assign(static_cast<std::size_t>(num_elements(y.desc)), 0);
  }
  for (std::int64_t r = 0; r < index.size(0); ++r) {
    const std::int64_t from = index.integer[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; from >= 0 && c < width; ++c) {
      const auto to = static_cast<std::size_t>(r * width + c);
      const auto at = static_cast<std::size_t>(from * width + c);
      if (real) {
        y.real[to] = x.real.at(at);
      } else {
        y.integer[to] = x.integer.at(at);
      }
    }
  }
}

}  // namespace tern::ops::ref
