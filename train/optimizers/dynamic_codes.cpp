#include "train/optimizers/dynamic_codes.h"

#include <algorithm>
#include <cmath>

namespace tern::train {

std::vector<float> dynamic_codes(bool has_sign) {
  constexpr int kExponents = 7;
  std::vector<float> codes = {0.0F, 1.0F};
  for (int i = 0; i < kExponents; ++i) {
    const int count = has_sign ? 1 << i : 1 << (i + 1);
    const double size = std::pow(10.0, i - (kExponents - 1));
    for (int k = 0; k < count; ++k) {
      const float low = 0.1F + 0.9F * static_cast<float>(k) / static_cast<float>(count);
      const float high = 0.1F + 0.9F * static_cast<float>(k + 1) / static_cast<float>(count);
      const auto code = static_cast<float>(size * static_cast<double>((low + high) / 2.0F));
      codes.push_back(code);
      if (has_sign) codes.push_back(-code);
    }
  }
  std::sort(codes.begin(), codes.end());
  return codes;
}

}  // namespace tern::train
