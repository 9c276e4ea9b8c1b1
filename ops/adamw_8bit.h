// adamw_8bit: adamw (ops/adamw.h) whose moments are kept in 8 bits by blocks of 256 elements (Dettmers et al., "8-bit
// Optimizers via Block-wise Quantization", ICLR 2022), in place:
//   m = m_codes[m] m_max, v = v_codes[v] v_max; param, m and v as in adamw; then of each block m_max = max |m|, and m the
//   code nearest to m / m_max, of two as near the smaller (0 / 0: 0); v in the same way.
//
// Shapes: param, m, v, grad alike, any rank, contiguous; m_max, v_max [ceil(elements / 256)]: a block is 256 elements in
//   their order; m_codes, v_codes [256], rising; hyper [10]: as of adamw.
// Dtypes: param, m_max, v_max, m_codes, v_codes, hyper fp32; m, v u8; grad float.
// Aliasing: none beyond the states. Determinism: always the same bits on one device.
// Backward: none. Decomposition: none.
// Tolerance: as of adamw, with the largest of the block's for m_max and v_max; the neighbour of a code, too, where m / m_max
// lies within that of the middle between the two.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

inline constexpr std::int64_t kAdamw8bitBlock = 256;
// Of that many elements; the last may be shorter.
[[nodiscard]] constexpr std::int64_t adamw_8bit_blocks(std::int64_t elements) {
  return (elements + kAdamw8bitBlock - 1) / kAdamw8bitBlock;
}

struct Adamw8bitState {
  Value param;
  Value m;
  Value v;
  Value m_max;
  Value v_max;
};
struct Adamw8bitCodes {
  Value m;
  Value v;
};
[[nodiscard]] Adamw8bitState adamw_8bit(Emitter& emitter, const Adamw8bitState& state, Value grad,
                                        const Adamw8bitCodes& codes, Value hyper, std::uint32_t needs = 0);

}  // namespace tern::ops
