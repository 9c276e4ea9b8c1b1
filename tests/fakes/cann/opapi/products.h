// What the products of matrices share.
#pragma once

#include "arguments.h"
#include "numerics_matmul.h"

namespace fake {

// What cubeMathType has the operands rounded to: 0 keeps them, 1 lets fp32 be less, 2 is fp16, 3 HF32, 4 for long sums.
// Refuses what the chip or the dtype doesn't go with.
[[nodiscard]] numerics::Rounding rounding_of(Op& op, aclDataType dtype, std::int8_t cube_math);

}  // namespace fake
