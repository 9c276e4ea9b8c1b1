// oneDNN as a second candidate for dense products. Where the library was not there at build time this header is not
// used.
#pragma once

#include <string>

#include "backends/cpu/kernels.h"

namespace tern::cpu {

// Products of f32 and bf16 matrices that oneDNN's own vector kernels take; anything else is refused. Its bits depend on
// the number of rows, so TERN_NEED_ROW_INVARIANT is refused too.
KernelList onednn_kernels();
[[nodiscard]] std::string onednn_version();  // "2.6.3"

}  // namespace tern::cpu
