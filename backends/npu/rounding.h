// What a product's `compute` asks of its operands: each element rounded to it. Products themselves are fp32.
#pragma once

#include "backends/npu/composer.h"

namespace tern::npu {

// The dtype of a compute; refuses what the chip doesn't multiply.
[[nodiscard]] aclDataType compute_dtype(const Composer& composer, std::int32_t compute);
// `view` as fp32 numbers that `compute` holds.
[[nodiscard]] View rounded_f32(Composer& composer, const View& view, std::int32_t compute);

}  // namespace tern::npu
