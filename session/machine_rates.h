// What a device gives at best, measured here and now: the measure of what a model reaches on it.
#pragma once

#include <cstdint>

#include "session/runtime.h"

namespace tern::session {

struct MachineRates {
  double gflops = 0;  // GFLOP/s of products of [512, 576] by [1536, 576]^T and back, rounded to the compute dtype; of
                      // larger ones where these are over in a moment
  double gbps = 0;    // GB/s of reading 128 MiB once, or 2 GiB where these are
};

// Takes about half a second, and an eighth of the device's free memory for so long (at least 160 MiB). Throws Failure
// (device) where they are not to be had.
[[nodiscard]] MachineRates measure_machine(Runtime& runtime, tern_dtype compute);

// GFLOP/s of products alone, of the largest that this device does in a moment within `bytes` of its memory: a twentieth
// of a second, and nothing that a run remembers. 0 where none fits. Throws Failure (device).
[[nodiscard]] double measure_products(Runtime& runtime, tern_dtype compute, std::uint64_t bytes);

}  // namespace tern::session
