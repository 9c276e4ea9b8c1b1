// What a device gives at best, measured here and now: the measure of what a model reaches on it.
#pragma once

#include "session/runtime.h"

namespace tern::session {

struct MachineRates {
  double gflops = 0;  // GFLOP/s of products of [512, 576] by [1536, 576]^T and back, rounded to the compute dtype
  double gbps = 0;    // GB/s of reading 128 MiB once
};

// Takes about half a second, and 160 MiB of the device for so long. Throws Failure (device) where they are not to be
// had.
[[nodiscard]] MachineRates measure_machine(Runtime& runtime, tern_dtype compute);

// GFLOP/s of products alone, of the largest that this device does in a moment: a twentieth of a second, a few MiB, and
// nothing that a run remembers. Throws Failure (device) where they are not to be had.
[[nodiscard]] double measure_products(Runtime& runtime, tern_dtype compute);

}  // namespace tern::session
