// Codes that share words of 32 bits, and their zero points, in each of the ways that files have them.
#pragma once

#include <cstdint>

#include "checkpoint/logical_tensors.h"

namespace tern::checkpoint {

// `bits` wide field at bit `position` of little-endian words, `stride` words apart; it may straddle two of them.
[[nodiscard]] std::uint32_t packed_field(const SourceTensor& tensor, std::int64_t first_word, std::int64_t stride,
                                         std::int64_t position, int bits);

// Of TERN_PACK_GPTQ_INT4, and of int8: what the codes of an output's group count from, and where the plane of scales
// has theirs. Codes of int8 count from 128 on.
[[nodiscard]] std::int32_t zero_point(const LogicalTensor& tensor, std::int64_t output, std::int64_t group);
[[nodiscard]] std::int64_t scale_index(const LogicalTensor& tensor, std::int64_t output, std::int64_t group);

}  // namespace tern::checkpoint
