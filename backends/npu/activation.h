// Activations and their derivatives in fp32, element by element.
#pragma once

#include "backends/npu/kernel.h"

namespace tern::npu {

// y = act(x) for x, y in fp32; y may be x.
void activate(Composer& c, std::int32_t kind, const View& x, const View& y);
// slope = act'(x) for x, slope in fp32, on memory apart.
void differentiate(Composer& c, std::int32_t kind, const View& x, const View& slope);

}  // namespace tern::npu
