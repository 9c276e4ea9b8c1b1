// What the runtime itself launches.
#include "backends/cuda/cu/common.cuh"

// Stands in a captured graph for a launch of no blocks. It may take the place of one that began early: what comes
// behind it is still to find everything before it done.
KERNEL(nothing)() { wait_for_previous(); }

// Sets bytes: 16 at a time where the place and the number allow it.
KERNEL(set_bytes)(uchar* to, long bytes, int byte) {
  const long first = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  if ((reinterpret_cast<ulong>(to) | static_cast<ulong>(bytes)) % 16 == 0) {
    const uint word = static_cast<uint>(byte & 0xff) * 0x01010101u;
    const uint4 words = {word, word, word, word};
    for (long i = first; i < bytes / 16; i += step) reinterpret_cast<uint4*>(to)[i] = words;
    return;
  }
  for (long i = first; i < bytes; i += step) to[i] = static_cast<uchar>(byte);
}

// x = x / by, of floats that lie one after another.
KERNEL(divide_all)(Tensor x, long count, float by) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) put(x, i, get(x, i) / by);
}
