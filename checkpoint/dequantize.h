// Block formats to fp32, bit-equal to the `gguf` package's reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "checkpoint/ggml_types.h"

namespace tern::checkpoint {

// Whether `dequantize` serves the type (not Q8_1, Q8_K, Q1_0, F64 and the integers).
[[nodiscard]] bool can_dequantize(GgmlType type);

// Expands whole blocks: bytes.size() / block_bytes blocks to as many times block_elements values. An Error names the
// type where it is not served. Throws std::logic_error where the sizes do not match.
[[nodiscard]] Status dequantize(GgmlType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace tern::checkpoint
