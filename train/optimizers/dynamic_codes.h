// The numbers that moments in 8 bits stand for.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::train {

// bitsandbytes keeps the moments of less than this in 32 bits.
inline constexpr std::int64_t kLeastIn8Bits = 4096;

// Dettmers' dynamic type: an exponent of ten that grows from 0 to -6 bits, and what bits are left for the fraction,
// whose means of equal steps from 0.1 to 1 are the codes ("8-bit Optimizers via Block-wise Quantization", ICLR 2022).
[[nodiscard]] std::vector<float> dynamic_codes(bool has_sign);  // [256], rising

}  // namespace tern::train
