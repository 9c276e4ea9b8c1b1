// GGUF blocks element by element, as ggml-common.h and ggml-quants.c define them.
#pragma once

#include <cstddef>
#include <span>

#include "tern/accel.h"

namespace tern::ops::ref {

// What makes an element, in fp64: scaled + minimum. Both are 0 or exact; their sum is rounded once to fp32.
struct ElementParts {
  double scaled = 0.0;
  double minimum = 0.0;
};

// One block of a packing that `block_is_known`; out has packing_block(packing).elements entries.
void expand_block(tern_packing packing, const std::byte* block, std::span<ElementParts> out);
[[nodiscard]] bool block_is_known(tern_packing packing);

// Byte offsets of the fp16 numbers of a block (none: MXFP4, whose byte 0 is a power of two), for those who make blocks
// of random bytes.
[[nodiscard]] std::span<const int> block_halves(tern_packing packing);

}  // namespace tern::ops::ref
