// What `tern selftest --require` asks: that a command of tern finds all its ops on the device itself.
#pragma once

#include "accel/device.h"
#include "conformance/recipe.h"

namespace tern::conformance {

// Whether a device must run the case itself, by its kernel or its decomposition, if it is to do without the host: one
// of f32, or bf16 where the device stores it; contiguous, not empty and without a need.
[[nodiscard]] bool is_required_case(const accel::Device& device, const Variant& variant, const Case& c);

}  // namespace tern::conformance
