// Which elements of a storage a view names, compared without a look at each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/tensor_desc.h"

namespace tern::graph {

// The elements offset + sum i stride, whatever the order in which a view counts them. Strides fall; no dimension has
// one entry, and neighbours that continue each other are one: equal sets are equal regions.
struct Region {
  struct Dim {
    std::int64_t size;
    std::int64_t stride;
    friend bool operator==(const Dim&, const Dim&) = default;
  };
  std::int64_t offset = 0;
  std::vector<Dim> dims;
  bool is_empty = false;  // a dimension of the view is 0
  friend bool operator==(const Region&, const Region&) = default;
};

// Dimensions with a stride of 0 name the same elements again, and are left out. Throws std::logic_error where elements
// share memory otherwise: windows that overlap.
[[nodiscard]] Region region_of(const TensorDesc& desc, std::int64_t offset);

// What of `from` none of `taken` covers, in regions that share nothing. Absent where boxes cannot say it: strides that
// do not divide each other, or pieces that begin within a row.
[[nodiscard]] std::optional<std::vector<Region>> subtract(const Region& from, std::span<const Region> taken);

// The region as a tensor, in the order of memory; dynamic where `storage` has dynamic rows and the region all of them.
[[nodiscard]] TensorDesc desc_of(const Region& region, const TensorDesc& storage, tern_dtype dtype);

}  // namespace tern::graph
