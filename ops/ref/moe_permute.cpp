#include "base/dtype.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void moe_permute(Call& call) {
  const Tensor& x = input(call, TERN_MOE_PERMUTE_X);
  const Tensor& experts = input(call, TERN_MOE_PERMUTE_EXPERTS);
  Tensor& y = call.args[TERN_MOE_PERMUTE_Y];
  Tensor& places = call.args[TERN_MOE_PERMUTE_PLACES];
  Tensor& offsets = call.args[TERN_MOE_PERMUTE_OFFSETS];
  const auto width = static_cast<std::size_t>(x.size(1));
  const auto top_k = static_cast<std::size_t>(experts.size(1));
  y.real.assign(static_cast<std::size_t>(num_elements(y.desc)), 0.0);
  places.integer.assign(experts.integer.size(), 0);
  offsets.integer.assign(1, 0);
  std::size_t place = 0;
  for (std::int64_t e = 0; e + 1 < offsets.size(0); ++e) {
    for (std::size_t i = 0; i < experts.integer.size(); ++i) {
      if (experts.integer[i] != e) continue;
      places.integer[i] = static_cast<std::int64_t>(place);
      for (std::size_t c = 0; c < width; ++c) y.real[place * width + c] = x.real[i / top_k * width + c];
      ++place;
    }
    offsets.integer.push_back(static_cast<std::int64_t>(place));
  }
}

}  // namespace tern::ops::ref
