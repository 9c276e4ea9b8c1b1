// What rms_norm and layer_norm share, in fp32 over [rows, width].
#pragma once

#include "backends/npu/kernel.h"

namespace tern::npu {

// The sum of each row of `x` times `factor`, as [rows, 1].
[[nodiscard]] View row_means(Composer& c, const View& x, double factor);
// What is normalised, in fp32: x, or x + residual rounded to the dtype of `sum`, which is written.
[[nodiscard]] View with_residual(Composer& c, int x, int residual, int sum);
// weight + offset in fp32.
[[nodiscard]] View norm_weight(Composer& c, int arg, float offset);
// Ends a gradient of x: adds dsum if there is one.
void finish_gradient(Composer& c, const View& dx, int dsum, int out);

}  // namespace tern::npu
