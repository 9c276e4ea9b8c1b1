// Parts of a case that must give the same bits alone as among the rest: what `row_invariant` means for each op.
#pragma once

#include <string>
#include <vector>

#include "conformance/memory.h"

namespace tern::conformance {

struct RowSlice {
  Case part;
  std::int64_t begin = 0;  // its first row among the whole's
  std::int64_t count = 0;
};

// Some rows alone: one in the middle and all but the first; of attention a whole sequence, and the last row of one, as
// decoding would compute it. Empty where the op has no independent rows.
[[nodiscard]] std::vector<RowSlice> row_slices(const Case& c);

// "" where the slice's outputs have the bits of those rows in the whole's.
[[nodiscard]] std::string compare_rows(const Case& c, const RowSlice& slice, const Outputs& whole,
                                       const Outputs& alone);

}  // namespace tern::conformance
