#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void row_sum(Call& call) {
  const auto attrs = attrs_of<tern_row_sum_attrs>(call);
  const Tensor& x = input(call, TERN_ROW_SUM_X);
  Output out(call, TERN_ROW_SUM_OUT);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      out.add(attrs.axis == 1 ? r : c, x.real[static_cast<std::size_t>(r * x.size(1) + c)]);
    }
  }
}

}  // namespace tern::ops::ref
