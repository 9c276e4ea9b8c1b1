// Masks of attention, as models make them and as none does.
#pragma once

#include <vector>

#include "conformance/case_builder.h"

namespace tern::conformance {

// What a mask shows: all keys (there is none), keys by chance and to some rows none at all, those before a row and the
// span that it lies in (an image), the ancestors of a row in a tree and all keys before the rows, or keys in runs of up
// to 700 that are all shown or all hidden.
enum class Mask { none, chance, spans, tree, runs };

struct MaskedRows {
  std::int64_t capacity;
  std::int64_t valid;    // those outside of every sequence included
  std::int64_t longest;  // keys of a sequence
  const std::vector<std::int64_t>& cu_q;
  const std::vector<std::int64_t>& len_k;  // by sequence
};

// Fills argument `arg`, [q_rows, mask_keys] bool, unless there is no mask.
void fill_mask(CaseBuilder& b, int arg, Mask kind, const MaskedRows& rows);

}  // namespace tern::conformance
