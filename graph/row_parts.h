// Where a tensor that is larger than a device allocates at once is cut: into parts of whole rows, each a tensor of its
// own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tensor_desc.h"

namespace tern::graph {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Parts of the first dimension, none larger than the device's largest allocation; one part where the tensor is none.
// A quantised tensor counts as it is once it's expanded to fp32, and is cut between groups of rows. `name` is for
// errors: throws Failure (device) where a single row is too large.
[[nodiscard]] std::vector<RowRange> row_parts(const TensorDesc& desc, const tern_device_info& device,
                                              std::string_view name);

[[nodiscard]] TensorDesc part_desc(TensorDesc desc, const RowRange& rows);         // of a contiguous tensor
[[nodiscard]] std::string part_name(std::string_view name, const RowRange& rows);  // "lm_head.weight[0:8192]"

}  // namespace tern::graph
