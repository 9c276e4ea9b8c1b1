// Matrix products in the accuracy that a contract asks for, by what a chip's matrix unit can do.
#pragma once

#include "backends/npu/kernel.h"

namespace tern::npu {

// out = a b for views [m, k] [k, n] [m, n], or with a leading batch, all fp32, accumulated in fp32; transposes are
// strides. No inner dimension: zeros.
void multiply_f32(Composer& c, const View& a, const View& b, const View& out);
// The same of one 16-bit dtype, rounded once.
void multiply_16(Composer& c, const View& a, const View& b, const View& out);
// What a product rounds its factors to before it multiplies: the view as it is, or a rounded copy.
[[nodiscard]] View narrowed(Composer& c, const View& view, tern_compute compute);

}  // namespace tern::npu
