// What the matrix units make of a whole warp's fragments.
#pragma once

#include "tests/fakes/cuda/emulator/block.h"

namespace tern::cuda::emulated {

// mma: each lane gave a[4] and b[2]; `made` becomes the product, float [16, 8]. ldmatrix: each lane gave an address; `made`
// becomes the four matrices, ushort [4, 8, 8].
void make_matrix(Meet kind, Exchange& exchange);

}  // namespace tern::cuda::emulated
