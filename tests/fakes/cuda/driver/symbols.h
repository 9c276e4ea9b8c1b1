// The driver's functions under the symbols of backends/cuda/driver.h: what is defined here by its member's name is what
// the library exports by its symbol.
#pragma once

#include "tests/fakes/cuda/driver/state.h"

namespace tern::cuda::fake {

#define TERN_FAKE_DECLARE(member, symbol, parameters) \
  __attribute__((visibility("default"))) CUresult member parameters asm(symbol);
TERN_CUDA_DRIVER(TERN_FAKE_DECLARE)
#undef TERN_FAKE_DECLARE

}  // namespace tern::cuda::fake
