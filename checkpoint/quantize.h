// fp32 to GGUF block formats, for writing files that llama.cpp loads.
//
// F16, BF16, Q8_0, Q4_0 and Q4_1 follow the reference to the bit. Q4_K and Q6_K search: each sub-block's scale (and
// minimum) is fitted by least squares over candidate grids, then its 6- or 8-bit code is tried with its neighbours;
// the squared error is never above the reference's search.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "checkpoint/ggml_types.h"

namespace tern::checkpoint {

[[nodiscard]] bool can_quantize(GgmlType type);

// values.size() is a multiple of the type's block; bytes has room for exactly that many blocks. An Error where a value
// is not finite or does not fit the type's scale, naming it, and for a type not written. Throws std::logic_error where
// the sizes do not match.
[[nodiscard]] Status quantize(GgmlType type, std::span<const float> values, std::span<std::byte> bytes);

}  // namespace tern::checkpoint
