// Which item a thread has: 64-bit divisions cost as much as all else that a short kernel does.
#pragma once

#include "backends/cuda/cu/common.cuh"

// `small`: all numbers of the call stay below 2^31.
DEVICE void divide(long number, long by, bool small, long& quotient, long& rest) {
  if (small) {
    quotient = static_cast<uint>(number) / static_cast<uint>(by);
    rest = static_cast<uint>(number) % static_cast<uint>(by);
  } else {
    quotient = number / by;
    rest = number % by;
  }
}
// This thread's part of an item, of `items` with `parts` each; false: it has none.
DEVICE bool find_part(long items, long parts, long& item, long& part) {
  const long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  divide(unit, parts, items * parts + blockDim.x <= 0x7fffffffL, item, part);
  return item < items;
}
