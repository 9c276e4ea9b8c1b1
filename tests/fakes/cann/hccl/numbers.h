// HCCL's dtypes and reductions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::fake_hccl {

// 0: no such dtype.
[[nodiscard]] std::size_t bytes_of(std::int32_t dtype);

// Whether a chip reduces this dtype in this way: HCCL's API pages, HcclAllReduce. `chip_has_bf16` is false for 910 and
// 310P.
[[nodiscard]] bool is_reducible(std::int32_t dtype, std::int32_t reduce, bool chip_has_bf16);

// into[i] = the reduction over ranks of parts[rank][i], in the order of ranks. 16-bit floats are summed in fp32 and
// rounded once.
void reduce_parts(std::byte* into, const std::byte* const* parts, std::uint32_t ranks, std::size_t count,
                  std::int32_t dtype, std::int32_t reduce);

}  // namespace tern::fake_hccl
