// Making and asking of tensor descriptions: helpers over the C struct that crosses the border.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/accel.h"

namespace tern {

using TensorDesc = tern_tensor_desc;

// Contiguous, layout 0, static. `shape` has 1 to 6 dimensions.
[[nodiscard]] TensorDesc make_desc(tern_dtype dtype, std::span<const std::int64_t> shape);
[[nodiscard]] TensorDesc make_desc(tern_dtype dtype, std::initializer_list<std::int64_t> shape);
// A quantised tensor [rows, columns] whose elements expand to `dtype`.
[[nodiscard]] TensorDesc make_quantised_desc(tern_dtype dtype, tern_scheme scheme, std::int64_t rows,
                                             std::int64_t columns);
[[nodiscard]] TensorDesc absent_desc();  // rank 0
// `desc` with dimension `dim` holding counts[slot] valid entries at launch.
[[nodiscard]] TensorDesc with_dynamic(TensorDesc desc, int dim, int slot);
// The scheme of a one-plane GGUF packing.
[[nodiscard]] tern_scheme gguf_scheme(tern_packing packing);

[[nodiscard]] inline bool is_present(const TensorDesc& desc) { return desc.rank > 0; }
[[nodiscard]] inline bool is_quantised(const TensorDesc& desc) { return desc.scheme.packing != TERN_PACK_NONE; }
[[nodiscard]] inline std::span<const std::int64_t> shape_of(const TensorDesc& desc) {
  return {desc.shape, static_cast<std::size_t>(desc.rank)};
}
[[nodiscard]] std::int64_t num_elements(const TensorDesc& desc);
[[nodiscard]] bool is_contiguous(const TensorDesc& desc);
[[nodiscard]] bool same_shape(const TensorDesc& a, const TensorDesc& b);
// Bytes from the first to one past the last element of each plane; unused planes are 0. Strided tensors count gaps.
struct PlaneBytes {
  std::uint64_t bytes[TERN_MAX_PLANES];
};
[[nodiscard]] PlaneBytes plane_bytes(const TensorDesc& desc);
[[nodiscard]] std::uint64_t total_bytes(const TensorDesc& desc);
[[nodiscard]] std::string to_string(const TensorDesc& desc);  // "bf16[512,576]", "q4_1[1536,576]"

}  // namespace tern
