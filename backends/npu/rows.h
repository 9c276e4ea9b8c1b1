// Rows by index: what gathers and embeddings share.
#pragma once

#include "backends/npu/kernel.h"

namespace tern::npu {

// out[r] = table[index[r]], zeros where index[r] < 0. table [n, width], index [rows] i32, out [rows, width], all of one
// dtype.
void gather_or_zero(Composer& c, const View& table, const View& index, const View& out);

}  // namespace tern::npu
